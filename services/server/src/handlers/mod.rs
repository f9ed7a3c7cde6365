//! What each route does.

pub(crate) mod div;
pub(crate) mod files;
pub(crate) mod hello;
pub(crate) mod root;
pub(crate) mod work;

use bytes::Bytes;
use corelane::Problem;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;

fn ok(media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(body));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply
}

fn text(body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    ok("text/plain; charset=utf-8", body.into())
}

/// Refuses a parameter, naming it and what is allowed.
fn bad_parameter(name: &str, allowed: &str) -> Response<Full<Bytes>> {
    Problem::new(StatusCode::BAD_REQUEST, "bad-parameter")
        .detail(format!("{name} must be {allowed}"))
        .member("parameter", name)
        .into_response()
}
