//! Reads a reply of any status with a Content-Length.

use memchr::{memchr, memmem};

use crate::reply::{HEAD_END, value_of};

/// A whole reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) status: u16,
    pub(crate) body: &'a [u8],
    pub(crate) etag: Option<&'a str>,
    pub(crate) location: Option<&'a str>,
    /// Whether the server closes the connection after it.
    pub(crate) closes: bool,
    /// The lane that it names (`corelane-lane`).
    pub(crate) lane: Option<usize>,
}

/// What arrived is no HTTP/1.1 reply with a Content-Length, or more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The reply in `bytes`; `None` while it is not complete.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<Reply<'_>>, Malformed> {
    let Some(head) = memmem::find(bytes, HEAD_END) else { return Ok(None) };
    let (mut reply, length) = read_head(&bytes[..head + 2]).ok_or(Malformed)?;
    reply.body = &bytes[head + HEAD_END.len()..];
    match reply.body.len() {
        arrived if arrived < length => Ok(None),
        arrived if arrived > length => Err(Malformed),
        _ => Ok(Some(reply)),
    }
}

fn read_head(mut lines: &[u8]) -> Option<(Reply<'_>, usize)> {
    let status = str::from_utf8(lines.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()?;
    let mut reply = Reply { status, ..Reply::default() };
    let mut length = None;
    while let Some(end) = memchr(b'\n', lines) {
        let line = &lines[..end];
        lines = &lines[end + 1..];
        if let Some(value) = value_of(line, b"content-length:") {
            length = value.parse().ok();
        } else if let Some(value) = value_of(line, b"etag:") {
            reply.etag = Some(value);
        } else if let Some(value) = value_of(line, b"location:") {
            reply.location = Some(value);
        } else if let Some(value) = value_of(line, b"corelane-lane:") {
            reply.lane = value.parse().ok();
        } else if let Some(value) = value_of(line, b"connection:") {
            reply.closes = value.eq_ignore_ascii_case("close");
        }
    }
    Some((reply, length?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nETag: \"1\"\r\nlocation: /projects/a\r\n\
        corelane-lane: 1\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";

    #[test]
    fn a_reply_is_read_when_it_is_whole() {
        for short in 0..CREATED.len() {
            assert_eq!(read(&CREATED[..short]), Ok(None), "{short}");
        }
        let want = Reply {
            status: 201,
            body: b"{}",
            etag: Some("\"1\""),
            location: Some("/projects/a"),
            closes: true,
            lane: Some(1),
        };
        assert_eq!(read(CREATED), Ok(Some(want)));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for bytes in [
            &b"garbage\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok!",
        ] {
            assert_eq!(read(bytes), Err(Malformed), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
