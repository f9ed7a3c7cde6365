//! Errors to clients, as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde_json::{Map, Value};

/// An error reply as `application/problem+json` (RFC 9457).
///
/// Its `type` is `urn:corelane:problem:` and a slug, which stays the same for the same problem;
/// `title` is the status's own phrase. The detail is for the client's eyes: never put into it
/// what only the server should know.
///
/// ```
/// use corelane::Problem;
/// use http::StatusCode;
///
/// let reply = Problem::new(StatusCode::BAD_REQUEST, "bad-parameter")
///     .detail("ops must be a whole number from 0 to 1000")
///     .member("parameter", "ops")
///     .into_response();
/// assert_eq!(reply.headers()["content-type"], "application/problem+json");
/// ```
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    members: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with this status and slug (lower case words joined by hyphens).
    pub fn new(status: StatusCode, slug: &str) -> Self {
        let mut members = Map::new();
        members.insert("type".into(), format!("urn:corelane:problem:{slug}").into());
        members.insert("title".into(), status.canonical_reason().unwrap_or("Error").into());
        members.insert("status".into(), status.as_u16().into());
        Problem { status, members, headers: Vec::new() }
    }

    /// Says what is wrong with this one request, in words for the client.
    pub fn detail(self, text: impl Into<String>) -> Self {
        self.member("detail", text.into())
    }

    /// Adds an extension member (RFC 9457 section 3.2), such as the parameter at fault.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header field to the reply, such as `Allow` or `Retry-After`.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The reply to send.
    pub fn into_response(self) -> Response<Full<Bytes>> {
        let (status, headers, body) = self.into_parts();
        let mut response = Response::new(Full::new(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    pub(crate) fn into_parts(self) -> (StatusCode, HeaderMap, Bytes) {
        let body = Bytes::from(Value::Object(self.members).to_string());
        let content_type = HeaderValue::from_static("application/problem+json");
        let fields = [(CONTENT_TYPE, content_type)].into_iter().chain(self.headers);
        (self.status, fields.collect(), body)
    }
}

impl From<StatusCode> for Problem {
    /// A problem that its status alone describes; the slug is the status's phrase.
    fn from(status: StatusCode) -> Self {
        let phrase = status.canonical_reason().unwrap_or("error");
        Problem::new(status, &phrase.to_ascii_lowercase().replace([' ', '\''], "-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_gives_a_stable_slug() {
        let problem = Problem::from(StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(problem.members["type"], "urn:corelane:problem:method-not-allowed");
        assert_eq!(problem.members["status"], 405);
    }
}
