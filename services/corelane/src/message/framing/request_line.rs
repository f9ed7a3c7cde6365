//! Parses the first line of a request incrementally.

use crate::message::conformance::letters_digits_and;

/// RFC 9112 section 3.1: methods are case-sensitive.
const HEAD_METHOD: &[u8] = b"HEAD ";

/// Bytes of a method (RFC 9110 section 5.6.2).
const TOKEN: [bool; 256] = letters_digits_and(b"!#$%&'*+-.^_`|~");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// HTTP/1, or not known yet.
    Http1,
    OtherVersion,
    /// Not HTTP.
    Other,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestLine {
    /// Length of the prefix that the line shares with [`HEAD_METHOD`].
    head: u8,
    spaces: u8,
    /// Start and length of the last word, with room for the end of the line after a version.
    version: [u8; 10],
    version_len: u8,
    after_cr: bool,
}

impl RequestLine {
    pub(super) fn has_method(&self) -> bool {
        self.spaces > 0
    }

    pub(super) fn asks_head(&self) -> bool {
        usize::from(self.head) == HEAD_METHOD.len()
    }

    pub(super) fn ends_with_cr(&self) -> bool {
        self.after_cr
    }

    /// Compares the start with HEAD, across parts. Returns the position of the first byte that a
    /// method must not contain.
    pub(super) fn note_method(&mut self, part: &[u8]) -> Option<usize> {
        if self.spaces > 0 {
            return None;
        }
        for (place, &byte) in part.iter().enumerate() {
            let is_empty = self.head == 0;
            self.head = match HEAD_METHOD.get(usize::from(self.head)) {
                Some(&expected) if byte == expected => self.head + 1,
                _ => u8::MAX,
            };
            match byte {
                b' ' if is_empty => return Some(place),
                b' ' | b'\n' => return None,
                // The complete line is checked at its end.
                b'\r' => {}
                _ if TOKEN[usize::from(byte)] => {}
                _ => return Some(place),
            }
        }
        None
    }

    pub(super) fn note(&mut self, part: &[u8]) {
        for &byte in part {
            if byte == b' ' {
                self.spaces = self.spaces.saturating_add(1);
                self.version_len = 0;
            } else if self.spaces > 0 {
                if let Some(place) = self.version.get_mut(usize::from(self.version_len)) {
                    *place = byte;
                }
                self.version_len = self.version_len.saturating_add(1);
            }
            if byte != b'\n' {
                self.after_cr = byte == b'\r';
            }
        }
    }

    /// Whether the complete line names HTTP/1.1 or HTTP/1.0. hyper checks the rest.
    pub(super) fn is_supported(&self) -> bool {
        matches!(self.version(), Some(b"HTTP/1.1" | b"HTTP/1.0"))
    }

    /// The last word of a complete line, unless it is longer than a version.
    fn version(&self) -> Option<&[u8]> {
        Some(self.version.get(..usize::from(self.version_len))?.trim_ascii_end())
    }

    pub(super) fn spoken(&self) -> Spoken {
        let is_http = self.version_len >= 5 && self.version[..5].eq_ignore_ascii_case(b"HTTP/");
        match self.version() {
            _ if self.spaces < 2 => Spoken::Http1,
            Some([b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', b'0'..=b'9']) => {
                match major {
                    b'1' => Spoken::Http1,
                    _ => Spoken::OtherVersion,
                }
            }
            // In every protocol, a request line has at least three words.
            word if self.spaces != 2 || word.is_some_and(<[u8]>::is_empty) => Spoken::Http1,
            _ if is_http => Spoken::Http1,
            _ => Spoken::Other,
        }
    }
}
