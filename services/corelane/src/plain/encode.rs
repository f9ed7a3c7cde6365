//! Encodes the heads of replies.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{Extensions, HeaderValue, Response, StatusCode, Version};
use http_body::Body;
use hyper::ext::ReasonPhrase;

use super::date::Date;
use crate::clock::Tick;
use crate::reply::BoxError;
use crate::reply_body::ReplyBody;

/// Size of a typical head.
const USUAL: usize = 512;

/// Appends the head of a reply to `out`. Returns the length of its body. `None` if it cannot be
/// sent with a length; nothing was written then.
pub(super) fn head<B>(
    reply: &Response<ReplyBody<B>>,
    date: &mut Date,
    out: &mut Vec<u8>,
) -> Option<u64>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let begun = out.len();
    out.reserve(USUAL);
    let length = lines(reply, date, out);
    if length.is_none() {
        out.truncate(begun);
    }
    length
}

fn lines<B>(reply: &Response<ReplyBody<B>>, date: &mut Date, out: &mut Vec<u8>) -> Option<u64>
where
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    let (status, body, ticket) = (reply.status(), reply.body(), reply.body().ticket());
    if status.is_informational() || reply.version() != Version::HTTP_11 {
        return None;
    }
    let length = match body.is_end_stream() {
        true => 0,
        false => body.size_hint().exact()?,
    };
    // RFC 9110 section 6.4.1: these have no body.
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless && length > 0 {
        return None;
    }
    status_line(status, reply.extensions(), out)?;
    let mut dated = false;
    for (name, value) in reply.headers() {
        let text = name.as_str();
        match *name {
            CONNECTION | UPGRADE | TRANSFER_ENCODING | TRAILER => return None,
            CONTENT_LENGTH if ticket.asks_head() => {}
            CONTENT_LENGTH if bodiless || says(value, length) => continue,
            CONTENT_LENGTH => return None,
            DATE => dated = true,
            _ if ticket.names(text) => continue,
            _ => {}
        }
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    ticket.write_names(out);
    if !ticket.asks_head() && !bodiless {
        out.extend_from_slice(b"content-length: ");
        decimal_line(length, out);
    }
    if dated {
        out.extend_from_slice(b"\r\n");
    } else {
        out.extend_from_slice(date.at(ticket.made().unwrap_or_else(Tick::now)));
    }
    Some(length)
}

fn status_line(status: StatusCode, extensions: &Extensions, out: &mut Vec<u8>) -> Option<()> {
    if !extensions.is_empty() && extensions.get::<ReasonPhrase>().is_some() {
        return None;
    }
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return Some(());
    }
    // Without `write!`, which takes ten times as long.
    for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason()?, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Some(())
}

/// Whether the service's Content-Length equals the length of the body.
fn says(value: &HeaderValue, length: u64) -> bool {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.and_then(|text| text.parse().ok()) == Some(length)
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
