//! What each route does.

pub(crate) mod div;
pub(crate) mod hello;
pub(crate) mod root;
pub(crate) mod work;

use bytes::Bytes;
use corelane::Problem;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

// Made at compile time: checking the bytes of a value for each reply costs more than sending it.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn ok(media_type: HeaderValue, body: Bytes) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(body));
    // Room for what the library adds too, so that the map does not grow.
    reply.headers_mut().reserve(HEADERS);
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    reply
}

/// Header fields of an ordinary reply: its type, its replica, its lane and its request's id. hyper
/// keeps the map for the connection's next request, and the next power of two takes twice the memory.
const HEADERS: usize = 4;

fn text(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    ok(TEXT, body.into())
}

/// Refuses a parameter, naming it and what is allowed.
fn bad_parameter(name: &str, allowed: &str) -> Response<Full<Bytes>> {
    Problem::new(StatusCode::BAD_REQUEST, "bad-parameter")
        .detail(format!("{name} must be {allowed}"))
        .member("parameter", name)
        .into_response()
}
