//! Reads the reply to one request from what has arrived so far.

use std::str::from_utf8;

use memchr::{memchr, memmem};

/// What is wrong with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// It is not HTTP/1.1 with a Content-Length.
    Malformed,
    /// Its status is not 200.
    Status,
    /// Its body is not the right one.
    Body,
    /// No connection was made.
    Connect,
    /// The connection ended before it.
    Closed,
    /// It did not come in time.
    Silence,
}

impl Fault {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Fault::Malformed => "malformed",
            Fault::Status => "status",
            Fault::Body => "body",
            Fault::Connect => "connect",
            Fault::Closed => "closed",
            Fault::Silence => "silence",
        }
    }
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// `None` when it is the right one.
    pub(crate) fault: Option<Fault>,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
    /// The lane that it names (`corelane-lane`).
    pub(crate) lane: Option<usize>,
}

pub(crate) const HEAD_END: &[u8] = b"\r\n\r\n";

/// The reply in `bytes`, whose body should be `body`; `None` while it is not complete.
pub(crate) fn read(bytes: &[u8], body: &[u8]) -> Option<Reply> {
    let head = memmem::find(bytes, HEAD_END)?;
    let mut reply = Reply { fault: None, closes: false, lane: None };
    let Some((status, length)) = read_head(&bytes[..head + 2], &mut reply) else {
        return Some(Reply { fault: Some(Fault::Malformed), closes: true, lane: None });
    };
    let rest = &bytes[head + HEAD_END.len()..];
    if rest.len() < length {
        return None;
    }
    if rest.len() > length {
        return Some(Reply { fault: Some(Fault::Malformed), closes: true, ..reply });
    }
    if status != b"200" {
        reply.fault = Some(Fault::Status);
    } else if rest != body {
        reply.fault = Some(Fault::Body);
    }
    Some(reply)
}

/// Status and length of the body; notes in `reply` what else the head says.
fn read_head<'a>(mut lines: &'a [u8], reply: &mut Reply) -> Option<(&'a [u8], usize)> {
    let status = lines.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    let mut length = None;
    while let Some(end) = memchr(b'\n', lines) {
        let line = &lines[..end];
        lines = &lines[end + 1..];
        if let Some(value) = value_of(line, b"content-length:") {
            length = value.parse().ok();
        } else if let Some(value) = value_of(line, b"corelane-lane:") {
            reply.lane = value.parse().ok();
        } else if let Some(value) = value_of(line, b"connection:") {
            reply.closes = value.eq_ignore_ascii_case("close");
        }
    }
    Some((status, length?))
}

/// The value of a field line if it has this name.
pub(crate) fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (start, value) = line.split_at_checked(name.len())?;
    if !start.eq_ignore_ascii_case(name) {
        return None;
    }
    from_utf8(value).ok().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncorelane-lane: 3\r\nconnection: close\r\n\r\nok";

    #[test]
    fn a_reply_is_read_when_it_is_whole() {
        for short in 0..RIGHT.len() {
            assert_eq!(read(&RIGHT[..short], b"ok"), None, "{short}");
        }
        let want = Reply { fault: None, closes: true, lane: Some(3) };
        assert_eq!(read(RIGHT, b"ok"), Some(want));
    }

    #[test]
    fn a_wrong_reply_is_told() {
        let cases: [(&[u8], Fault); 6] = [
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", Fault::Body),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Fault::Body),
            (b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nok", Fault::Status),
            (b"HTTP/1.1 200 OK\r\n\r\nok", Fault::Malformed),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!", Fault::Malformed),
            (b"garbage\r\n\r\n", Fault::Malformed),
        ];
        for (bytes, fault) in cases {
            let reply = read(bytes, b"ok").expect("whole");
            assert_eq!(reply.fault, Some(fault), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
