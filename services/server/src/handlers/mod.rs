//! The handlers of the routes.

pub(crate) mod div;
pub(crate) mod hello;
pub(crate) mod root;
pub(crate) mod work;

use std::mem;

use bytes::Bytes;
use corelane::Problem;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;

// A constant, because validating the bytes of a header value costs more than sending it.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response that reuses `map`, the header map of its request.
fn ok(mut map: HeaderMap, media_type: HeaderValue, body: Bytes) -> Response<Full<Bytes>> {
    map.clear();
    // Leaves room for the library's headers, so that the map does not grow.
    map.reserve(HEADERS);
    map.insert(CONTENT_TYPE, media_type);
    let mut reply = Response::new(Full::new(body));
    // The replaced map is empty, so running its destructor would be a waste of time.
    mem::forget(mem::replace(reply.headers_mut(), map));
    reply
}

/// Headers of an ordinary response: type, replica, lane and request ID. hyper keeps the map for the
/// connection's next request, and the next power of two would take twice as much memory.
const HEADERS: usize = 4;

fn text(map: HeaderMap, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    ok(map, TEXT, body.into())
}

/// Rejects a parameter; the response names the parameter and its allowed values.
fn bad_parameter(name: &str, allowed: &str) -> Response<Full<Bytes>> {
    Problem::new(StatusCode::BAD_REQUEST, "bad-parameter")
        .detail(format!("{name} must be {allowed}"))
        .member("parameter", name)
        .into_response()
}
