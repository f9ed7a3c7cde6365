//! Responses to requests for files.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION, RANGE, RETRY_AFTER};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::body::{Body, Piece};
use crate::conditions::{Verdict, evaluate, is_plain, range_holds};
use crate::range::{Selection, select};
use crate::resource::{Content, Representation, Resource};

/// Responds to a GET or HEAD with a file. Reuses the request's `fields` for the response.
pub(crate) fn reply(resource: &Resource, method: &Method, fields: HeaderMap) -> Response<Body> {
    let chosen = resource.select(&fields);
    if is_plain(&fields) {
        return whole(chosen, fields);
    }
    match evaluate(&fields, &chosen.validators) {
        Verdict::Proceed => {}
        Verdict::NotModified => {
            let mut reply = status(StatusCode::NOT_MODIFIED);
            *reply.headers_mut() = chosen.fields_of_304();
            return reply;
        }
        Verdict::Failed => return status(StatusCode::PRECONDITION_FAILED),
    }
    // Other methods have no ranges (RFC 9110 section 14.2).
    if *method == Method::GET
        && let Some(value) = fields.get(RANGE)
        && range_holds(&fields, &chosen.validators)
        && fields.get_all(RANGE).iter().count() == 1
    {
        match select(value.as_bytes(), chosen.length) {
            Selection::Whole => {}
            Selection::Parts(parts) => return partial(chosen, &parts, fields),
            Selection::Refused => {
                let mut reply = status(StatusCode::RANGE_NOT_SATISFIABLE);
                let length = text(format!("bytes */{}", chosen.length));
                reply.headers_mut().insert(CONTENT_RANGE, length);
                return reply;
            }
        }
    }
    whole(chosen, fields)
}

/// A response without a body.
pub(crate) fn status(status: StatusCode) -> Response<Body> {
    let mut reply = Response::new(Body::default());
    *reply.status_mut() = status;
    reply
}

/// The response when there are too many lookups.
pub(crate) fn overloaded() -> Response<Body> {
    let mut reply = status(StatusCode::SERVICE_UNAVAILABLE);
    reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}

/// Redirects to the folder with a slash, because relative links in its index resolve against that
/// URL. Keeps the query, because clients may cache a 308. `path` is decoded. Intended for services
/// that mount [`Files`](crate::Files) at a folder.
///
/// The redirect is relative, so it works at any mount point. It never leads to another host,
/// because a reference starting with `./` is a path (RFC 3986 section 4.2).
pub fn to_folder(path: &str, query: Option<&str>) -> Response<Body> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut location = String::from("./");
    for byte in name.bytes() {
        // Unreserved characters (RFC 3986 section 2.3).
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            location.push(char::from(byte));
        } else {
            location.push_str(&format!("%{byte:02X}"));
        }
    }
    location.push('/');
    if let Some(query) = query {
        location.push('?');
        location.push_str(query);
    }
    let mut reply = status(StatusCode::PERMANENT_REDIRECT);
    if let Ok(location) = HeaderValue::try_from(location) {
        reply.headers_mut().insert(LOCATION, location);
    }
    reply
}

fn whole(chosen: &Representation, fields: HeaderMap) -> Response<Body> {
    let body = match &chosen.content {
        Content::Memory(bytes) => Body::from(bytes.clone()),
        Content::Disk(file) => Body::of(Arc::clone(file), [Piece::File(0..chosen.length)]),
    };
    let mut reply = Response::new(body);
    *reply.headers_mut() = chosen.fields(fields);
    reply
}

/// Section 15.3.7: a single part is sent as the body, and several parts form a multipart document.
fn partial(chosen: &Representation, parts: &[Range<u64>], fields: HeaderMap) -> Response<Body> {
    let mut fields = chosen.fields(fields);
    let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
    if let [part] = parts {
        fields.insert(CONTENT_RANGE, text(content_range(part, chosen.length)));
        pieces.push(Piece::File(part.clone()));
    } else {
        let boundary = format!("{:016x}", RandomState::new().build_hasher().finish());
        for part in parts {
            pieces.push(Piece::Text(part_head(chosen, part, &boundary)));
            pieces.push(Piece::File(part.clone()));
        }
        pieces.push(Piece::Text(format!("\r\n--{boundary}--\r\n").into()));
        let media_type = format!("multipart/byteranges; boundary={boundary}");
        fields.insert(CONTENT_TYPE, text(media_type));
    }
    let mut reply = Response::new(match &chosen.content {
        Content::Memory(bytes) => Body::from(join(bytes, &pieces)),
        Content::Disk(file) => Body::of(Arc::clone(file), pieces),
    });
    *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
    *reply.headers_mut() = fields;
    reply
}

/// Section 14.6.
fn part_head(chosen: &Representation, part: &Range<u64>, boundary: &str) -> Bytes {
    let mut head = BytesMut::new();
    head.put_slice(format!("\r\n--{boundary}\r\ncontent-type: ").as_bytes());
    head.put_slice(chosen.media_type.as_bytes());
    let range = content_range(part, chosen.length);
    head.put_slice(format!("\r\ncontent-range: {range}\r\n\r\n").as_bytes());
    head.freeze()
}

fn content_range(part: &Range<u64>, length: u64) -> String {
    format!("bytes {}-{}/{length}", part.start, part.end - 1)
}

/// A single piece is not copied.
fn join(file: &Bytes, pieces: &[Piece]) -> Bytes {
    let bytes = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::File(range) => file.slice(range.start as usize..range.end as usize),
    };
    match pieces {
        [piece] => bytes(piece),
        _ => pieces.iter().flat_map(bytes).collect(),
    }
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""))
}
