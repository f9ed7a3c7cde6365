//! The heads of replies.

use std::io::Write;

use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{Extensions, HeaderValue, Response, StatusCode, Version};
use http_body::Body;
use hyper::ext::ReasonPhrase;

/// Writes the head of a reply behind what is in `out`; how many bytes of body belong to it.
/// `None`: it takes more than a length to send, and nothing was written.
pub(super) fn head<B: Body>(
    reply: &Response<B>,
    answers_head: bool,
    date: &str,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let begun = out.len();
    let length = fields(reply, answers_head, date, out);
    if length.is_none() {
        out.truncate(begun);
    }
    length
}

fn fields<B: Body>(
    reply: &Response<B>,
    answers_head: bool,
    date: &str,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let status = reply.status();
    if status.is_informational() || reply.version() != Version::HTTP_11 {
        return None;
    }
    let length = match reply.body().is_end_stream() {
        true => 0,
        false => reply.body().size_hint().exact()?,
    };
    // RFC 9110 section 6.4.1: these have no body.
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    if bodiless && length > 0 {
        return None;
    }
    status_line(status, reply.extensions(), out)?;
    let mut dated = false;
    for (name, value) in reply.headers() {
        match *name {
            CONNECTION | UPGRADE | TRANSFER_ENCODING | TRAILER => return None,
            CONTENT_LENGTH if answers_head => {}
            CONTENT_LENGTH if bodiless || says(value, length) => continue,
            CONTENT_LENGTH => return None,
            DATE => dated = true,
            _ => {}
        }
        field(name.as_str(), value.as_bytes(), out);
    }
    if !answers_head && !bodiless {
        out.extend_from_slice(b"content-length: ");
        decimal(length, out);
        out.extend_from_slice(b"\r\n");
    }
    if !dated {
        field("date", date.as_bytes(), out);
    }
    out.extend_from_slice(b"\r\n");
    Some(length)
}

fn field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn status_line(status: StatusCode, extensions: &Extensions, out: &mut Vec<u8>) -> Option<()> {
    if !extensions.is_empty() && extensions.get::<ReasonPhrase>().is_some() {
        return None;
    }
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return Some(());
    }
    let reason = status.canonical_reason()?;
    // Into memory nothing fails to be written.
    let _ = write!(out, "HTTP/1.1 {} {reason}\r\n", status.as_str());
    Some(())
}

/// Whether a Content-Length of the service's is the length that its body has.
fn says(value: &HeaderValue, length: u64) -> bool {
    let text = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    text.and_then(|text| text.parse().ok()) == Some(length)
}

fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}
