//! Reads the document in a request's body.

use std::mem;

use bytes::{Bytes, BytesMut};
use corelane::{Incoming, Problem};
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::document;
use super::reply::Refusal;

/// Maximum size of a document, about ten times the usual one.
const MOST: usize = 64 << 10;

/// Reads and checks the document of a request. The body is read first in any case, because a
/// connection with an unread body cannot be reused.
pub(crate) async fn document(headers: &HeaderMap, body: Incoming) -> Result<Bytes, Refusal> {
    let text = collect(body).await?;
    check_type(headers)?;
    Ok(document::validate(text)?)
}

/// Rejects other types than plain JSON, and names what is accepted (RFC 9110 section 15.5.16).
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = || Problem::from(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    // JSON has no parameters: a charset has no effect (RFC 8259 section 11).
    let is_json = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    };
    if !types.next().is_some_and(is_json) || types.next().is_some() {
        return Err(unsupported()
            .detail("the content type must be application/json")
            .header(ACCEPT, HeaderValue::from_static("application/json")));
    }
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(plain) {
        return Err(unsupported()
            .detail("the body must have no content coding")
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity")));
    }
    Ok(())
}

/// The whole body, or just enough to see that it is too large. A body in one piece is not copied.
async fn collect(mut body: Incoming) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().lower();
    if announced > MOST as u64 {
        return Err(too_large().into());
    }
    let mut whole = Bytes::new();
    let mut pieces = BytesMut::new();
    // A body with a Content-Length is known to end with its last piece.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame.map_err(Refusal::Body)?.into_data() {
            if whole.len() + pieces.len() + data.len() > MOST {
                return Err(too_large().into());
            }
            if whole.is_empty() && pieces.is_empty() {
                whole = data;
                continue;
            }
            if pieces.is_empty() {
                pieces.reserve(announced as usize);
                pieces.extend_from_slice(&mem::take(&mut whole));
            }
            pieces.extend_from_slice(&data);
        }
    }
    Ok(if pieces.is_empty() { whole } else { pieces.freeze() })
}

fn too_large() -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large")
        .detail(format!("a document has at most {MOST} bytes"))
}
