//! `/faults` on the admin port.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use corelane::Problem;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;

use super::Faults;
use super::set::Set;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, PUT, DELETE");

/// Lists, replaces and clears the faults. Without `faults = on` it rejects every request.
pub(crate) fn handler(
    faults: Option<Arc<Faults>>,
) -> impl Fn(Request<Bytes>) -> Response<Full<Bytes>> + Send + Sync + 'static {
    move |request| match &faults {
        Some(faults) => faults.answer(&request).unwrap_or_else(Problem::into_response),
        None => Problem::new(StatusCode::FORBIDDEN, "faults-off")
            .detail("this server was not started with faults = on")
            .into_response(),
    }
}

impl Faults {
    fn answer(&self, request: &Request<Bytes>) -> Result<Response<Full<Bytes>>, Problem> {
        match *request.method() {
            Method::GET | Method::HEAD => {}
            Method::PUT => {
                let set = Set::parse(request.body(), self.routes, Instant::now())?;
                tracing::warn!(faults = set.faults.len(), seed = set.seed, "faults are injected");
                self.replace(set);
            }
            Method::DELETE => {
                self.replace(Set::default());
                tracing::info!("faults were cleared");
            }
            _ => return Err(Problem::from(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, METHODS)),
        }
        let text = format!("{:#}\n", self.current().show(Instant::now()));
        let mut reply = Response::new(Full::from(text));
        reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(reply)
    }
}
