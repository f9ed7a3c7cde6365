//! Encodes the heads of replies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{Extensions, HeaderValue, Response, StatusCode};
use http_body::Body;
use hyper::ext::ReasonPhrase;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::request::reply_body::ReplyBody;

/// Size of a typical head.
const USUAL: usize = 512;

/// How the client finds the end of a reply's body (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// Content-Length; the number of bytes that are still to be sent.
    Length(u64),
    Chunked,
}

/// What follows a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded {
    pub(crate) framing: BodyLength,
    /// The head says that the connection ends with this reply.
    pub(crate) close: bool,
}

/// Appends the head of a reply to `out`. `close`: the connection ends with this reply, even if the
/// service does not say so.
pub(crate) fn head<B>(
    reply: &Response<ReplyBody<B>>,
    close: bool,
    date: &mut Date,
    out: &mut Vec<u8>,
) -> Encoded
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    out.reserve(USUAL);
    let (status, body, in_flight) = (reply.status(), reply.body(), reply.body().in_flight());
    // RFC 9110 section 6.4.1: these have no body.
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = match body.is_end_stream() || bodiless {
        true => Some(0),
        false => body.size_hint().exact(),
    };
    status_line(status, reply.extensions(), out);
    let (mut dated, mut says_close, mut announced) = (false, false, None);
    for (name, value) in reply.headers() {
        match *name {
            CONTENT_LENGTH if in_flight.asks_head() => {}
            CONTENT_LENGTH => {
                announced = number(value);
                continue;
            }
            TRANSFER_ENCODING => continue,
            CONNECTION if closes(value) => says_close = true,
            // What the service says must not contradict the end.
            CONNECTION if close => continue,
            DATE => dated = true,
            _ if in_flight.names(name.as_str()) => continue,
            _ => {}
        }
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if close && !says_close {
        out.extend_from_slice(b"connection: close\r\n");
    }
    in_flight.write_names(out);
    // The length of the body takes precedence over the Content-Length that the service set.
    let framing = length.or(announced).map_or(BodyLength::Chunked, BodyLength::Length);
    match framing {
        _ if in_flight.asks_head() || bodiless => {}
        BodyLength::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        BodyLength::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            decimal_line(length, out);
        }
    }
    if dated {
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(date.at(in_flight.made().unwrap_or_else(Tick::now)));
    }
    Encoded { framing, close: close || says_close }
}

fn status_line(status: StatusCode, extensions: &Extensions, out: &mut Vec<u8>) {
    let phrase = (!extensions.is_empty()).then(|| extensions.get::<ReasonPhrase>()).flatten();
    if status == StatusCode::OK && phrase.is_none() {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    // hyper writes the same for a status without a reason phrase.
    let usual = || status.canonical_reason().unwrap_or("<none>").as_bytes();
    let phrase = phrase.map_or_else(usual, ReasonPhrase::as_bytes);
    // Not by `write!`, which takes ten times as long.
    for part in [b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", phrase, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes the line that begins a chunk (RFC 9112 section 7.1).
pub(crate) fn chunk_line(length: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut line = *b"0000000000000000\r\n";
    let (mut at, mut rest) = (line.len() - 2, length);
    while rest > 0 {
        at -= 1;
        line[at] = DIGITS[rest % 16];
        rest /= 16;
    }
    out.extend_from_slice(&line[at..]);
}

/// Whether a value of Connection has the option `close` (RFC 9110 section 7.6.1).
fn closes(value: &HeaderValue) -> bool {
    let mut options = value.as_bytes().split(|&byte| byte == b',');
    options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// The value of a Content-Length that the service set, if it is a number.
fn number(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// Writes a number and the end of the line.
fn decimal_line(mut number: u64, out: &mut Vec<u8>) {
    let mut line = *b"00000000000000000000\r\n";
    let mut at = line.len() - 2;
    loop {
        at -= 1;
        line[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&line[at..]);
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// The end of a head: the line with the date (RFC 9110 section 6.6.1) and an empty line. It is
/// updated once per second, which reads the wall clock.
#[derive(Debug)]
pub(crate) struct Date {
    lines: String,
    /// When the lines were made, and for how many nanoseconds they are valid.
    read: Tick,
    lasts: u64,
}

impl Date {
    pub(crate) fn new() -> Self {
        Date { lines: String::new(), read: Tick::now(), lasts: 0 }
    }

    /// The lines at `now`, which is the current or a recent time.
    pub(crate) fn at(&mut self, now: Tick) -> &[u8] {
        if now.since(self.read) >= self.lasts {
            self.read = Tick::now();
            self.set(SystemTime::now());
        }
        self.lines.as_bytes()
    }

    fn set(&mut self, now: SystemTime) {
        let into = now.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.subsec_nanos());
        self.lasts = SECOND - u64::from(into);
        let second = now - Duration::from_nanos(u64::from(into));
        self.lines = format!("date: {}\r\n\r\n", httpdate::fmt_http_date(second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_the_second_of_the_wall_clock() {
        let mut date = Date::new();
        let begun = UNIX_EPOCH + Duration::new(784_111_777, 400_000_000);
        date.set(begun);
        let lines = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        assert_eq!(date.lasts, 600_000_000);
        let (last, next) = (date.read.later(599_999_999), date.read.later(600_000_000));
        assert_eq!(date.at(last), lines);
        assert_ne!(date.at(next), lines, "read anew");
    }
}
