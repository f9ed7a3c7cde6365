//! Parses the first line of a request incrementally.

/// RFC 9112 section 3.1: methods are case-sensitive.
const HEAD_METHOD: &[u8] = b"HEAD ";

/// The protocol of the invalid request line, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1, or unknown.
    Http1,
    /// An unsupported HTTP version.
    OtherVersion,
    /// A protocol that is not HTTP.
    Other,
}

/// The part of a request line that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestLine {
    /// Length of the prefix that it shares with [`HEAD_METHOD`].
    head: u8,
    spaces: u8,
    /// The start of the third word.
    version: [u8; 10],
    version_len: u8,
    after_cr: bool,
}

impl RequestLine {
    /// Whether the recorded part includes the method.
    pub(super) fn has_method(&self) -> bool {
        self.spaces > 0
    }

    pub(super) fn asks_head(&self) -> bool {
        usize::from(self.head) == HEAD_METHOD.len()
    }

    pub(super) fn ends_with_cr(&self) -> bool {
        self.after_cr
    }

    /// Compares the start with HEAD, across parts.
    pub(super) fn note_method(&mut self, part: &[u8]) {
        if self.spaces > 0 {
            return;
        }
        for &byte in part {
            match HEAD_METHOD.get(usize::from(self.head)) {
                Some(&expected) if byte == expected => self.head += 1,
                Some(_) => {
                    self.head = u8::MAX;
                    return;
                }
                None => return,
            }
        }
    }

    /// Records a part of a line that is split or unusual.
    pub(super) fn note(&mut self, part: &[u8]) {
        for &byte in part {
            if byte == b' ' {
                self.spaces = self.spaces.saturating_add(1);
                self.version_len = 0;
            } else if self.spaces >= 2
                && let Some(place) = self.version.get_mut(usize::from(self.version_len))
            {
                *place = byte;
                self.version_len += 1;
            }
            if byte != b'\n' {
                self.after_cr = byte == b'\r';
            }
        }
    }

    /// The protocol of the complete line.
    pub(super) fn spoken(&self) -> Spoken {
        let word = self.version[..usize::from(self.version_len)].trim_ascii_end();
        match word {
            [name @ .., major @ b'0'..=b'9', b'.', b'0'..=b'9'] if name == b"HTTP/" => {
                match major {
                    b'1' => Spoken::Http1,
                    _ => Spoken::OtherVersion,
                }
            }
            // A line without three words is not a request line of any protocol.
            _ if self.spaces != 2 || word.is_empty() => Spoken::Http1,
            _ if word.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"HTTP/")) => {
                Spoken::Http1
            }
            _ => Spoken::Other,
        }
    }
}
