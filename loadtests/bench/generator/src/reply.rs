//! Parses the response from the bytes that have arrived.

use std::str::from_utf8;

use memchr::{memchr, memmem};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The response is not HTTP/1.1 with a Content-Length.
    Malformed,
    /// The response has this incorrect status.
    Status(u16),
    Body,
    Field,
    /// The connection could not be established.
    Connect,
    /// The connection closed before the response.
    Closed,
    Silence,
}

impl Fault {
    pub(crate) fn name(self) -> String {
        match self {
            Fault::Malformed => "malformed",
            Fault::Status(status) => return format!("status {status}"),
            Fault::Body => "body",
            Fault::Field => "ETag or Location",
            Fault::Connect => "connect",
            Fault::Closed => "closed",
            Fault::Silence => "silence",
        }
        .to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// The error; `None` if the response is correct.
    pub(crate) fault: Option<Fault>,
    /// Whether the server closes the connection after the response.
    pub(crate) closes: bool,
    pub(crate) lane: Option<usize>,
}

impl Reply {
    /// For a connection whose responses cannot be parsed.
    pub(crate) const MALFORMED: Reply =
        Reply { fault: Some(Fault::Malformed), closes: true, lane: None };
}

/// Parses a response and compares its body with `body`. `None` while it is incomplete.
pub(crate) fn read(bytes: &[u8], body: &[u8]) -> Option<Reply> {
    let Ok(message) = parse(bytes) else { return Some(Reply::MALFORMED) };
    let message = message?;
    let fault = if message.status != 200 {
        Some(Fault::Status(message.status))
    } else {
        (message.body != body).then_some(Fault::Body)
    };
    Some(Reply { fault, closes: message.closes, lane: message.lane })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) etag: Option<&'a str>,
    pub(crate) location: Option<&'a str>,
    pub(crate) closes: bool,
    pub(crate) lane: Option<usize>,
}

/// The input is not an HTTP/1.1 response with a Content-Length, or is more than one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

const HEAD_END: &[u8] = b"\r\n\r\n";

/// `None` while the message is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Message<'_>>, Malformed> {
    let Some(head) = memmem::find(bytes, HEAD_END) else { return Ok(None) };
    let (mut message, length) = parse_head(&bytes[..head + 2]).ok_or(Malformed)?;
    message.body = &bytes[head + HEAD_END.len()..];
    match message.body.len() {
        arrived if arrived < length => Ok(None),
        arrived if arrived > length => Err(Malformed),
        _ => Ok(Some(message)),
    }
}

fn parse_head(mut lines: &[u8]) -> Option<(Message<'_>, usize)> {
    let status = from_utf8(lines.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()?;
    let mut message = Message { status, ..Message::default() };
    let mut length = None;
    while let Some(end) = memchr(b'\n', lines) {
        let line = &lines[..end];
        lines = &lines[end + 1..];
        if let Some(value) = value_of(line, b"content-length:") {
            length = value.parse().ok();
        } else if let Some(value) = value_of(line, b"corelane-lane:") {
            message.lane = value.parse().ok();
        } else if let Some(value) = value_of(line, b"connection:") {
            message.closes = value.eq_ignore_ascii_case("close");
        } else if let Some(value) = value_of(line, b"etag:") {
            message.etag = Some(value);
        } else if let Some(value) = value_of(line, b"location:") {
            message.location = Some(value);
        }
    }
    Some((message, length?))
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
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
            (b"HTTP/1.1 503 Busy\r\ncontent-length: 2\r\n\r\nok", Fault::Status(503)),
            (b"HTTP/1.1 200 OK\r\n\r\nok", Fault::Malformed),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!", Fault::Malformed),
            (b"garbage\r\n\r\n", Fault::Malformed),
        ];
        for (bytes, fault) in cases {
            let reply = read(bytes, b"ok").expect("whole");
            assert_eq!(reply.fault, Some(fault), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_message_tells_its_fields() {
        let created = b"HTTP/1.1 201 Created\r\nETag: \"1\"\r\nlocation: /projects/a\r\n\
            corelane-lane: 1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
        let want = Message {
            status: 201,
            body: b"{}",
            etag: Some("\"1\""),
            location: Some("/projects/a"),
            closes: true,
            lane: Some(1),
        };
        assert_eq!(parse(created), Ok(Some(want)));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(parse(chunked), Err(Malformed));
    }
}
