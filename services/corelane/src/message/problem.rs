//! Error responses, as `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use serde_json::Value;

use crate::message::grpc::GrpcStatus;

/// An error response as `application/problem+json` (RFC 9457).
///
/// `type` is `urn:corelane:problem:` with a slug that is stable for each kind of problem, and
/// `title` is the reason phrase of the status. The client sees the detail, so it must not contain
/// internal information.
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
    /// `None` if the status determines it.
    kind: Option<String>,
    /// Members other than `type`, `title` and `status`.
    members: Vec<(Cow<'static, str>, Value)>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// Slug for requests whose deadline has passed.
pub(crate) const DEADLINE_EXCEEDED: &str = "deadline-exceeded";

const MEDIA_TYPE: &str = "application/problem+json";

/// Capacity for a body without extension members.
const BODY: usize = 256;

pub(crate) fn is_document(fields: &HeaderMap) -> bool {
    fields.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(MEDIA_TYPE.as_bytes()))
}

pub(crate) fn grpc_status(status: StatusCode, document: &[u8]) -> GrpcStatus {
    let members: Value = serde_json::from_slice(document).unwrap_or_default();
    let text = |name| members.get(name).and_then(Value::as_str);
    let is_late = text("type").is_some_and(|kind| kind.ends_with(DEADLINE_EXCEEDED));
    let message = text("detail").or(status.canonical_reason()).unwrap_or_default();
    GrpcStatus::new(status, is_late, message)
}

impl Problem {
    /// Creates a problem with this status and slug (lower-case words joined by hyphens).
    pub fn new(status: StatusCode, slug: &str) -> Self {
        Problem { kind: Some([TYPE, slug].concat()), ..Problem::from(status) }
    }

    /// Explains the error to the client.
    pub fn detail(self, text: impl Into<String>) -> Self {
        self.with(Cow::Borrowed("detail"), text.into().into())
    }

    /// Adds an extension member (RFC 9457 section 3.2), such as the invalid parameter. `type`,
    /// `title` and `status` are not extensions and cannot be replaced.
    pub fn member(self, name: &str, value: impl Into<Value>) -> Self {
        match name {
            "type" | "title" | "status" => self,
            _ => self.with(Cow::Owned(name.to_owned()), value.into()),
        }
    }

    fn with(mut self, name: Cow<'static, str>, value: Value) -> Self {
        match self.members.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.members.push((name, value)),
        }
        self
    }

    /// Adds a header field to the response, such as `Allow` or `Retry-After`.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Converts the problem into a response. For gRPC clients, the server converts it to a status
    /// whose message is the detail.
    pub fn into_response(self) -> Response<Full<Bytes>> {
        self.into_reply(Full::new)
    }

    /// `body` converts the body's bytes.
    pub(crate) fn into_reply<B>(self, body: impl FnOnce(Bytes) -> B) -> Response<B> {
        let (status, headers, bytes) = self.into_parts();
        let mut response = Response::new(body(bytes));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    pub(crate) fn into_parts(self) -> (StatusCode, HeaderMap, Bytes) {
        let body = Bytes::from(self.body());
        // Leaves room for the library's headers, so that the map does not grow.
        let mut fields = HeaderMap::with_capacity(4 + self.headers.len());
        fields.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        for (name, value) in self.headers {
            fields.append(name, value);
        }
        (self.status, fields, body)
    }

    /// The members as JSON, written directly because a map of values costs several times as many
    /// instructions.
    fn body(&self) -> Vec<u8> {
        let phrase = self.status.canonical_reason().unwrap_or("Error");
        let mut body = Vec::with_capacity(BODY);
        body.extend_from_slice(b"{\"type\":");
        match &self.kind {
            Some(kind) => write_text(&mut body, kind),
            None => {
                body.push(b'"');
                body.extend_from_slice(TYPE.as_bytes());
                body.extend(phrase.bytes().map(|byte| match byte {
                    b' ' | b'\'' => b'-',
                    other => other.to_ascii_lowercase(),
                }));
                body.push(b'"');
            }
        }
        body.extend_from_slice(b",\"title\":\"");
        body.extend_from_slice(phrase.as_bytes());
        body.extend_from_slice(b"\",\"status\":");
        body.extend_from_slice(self.status.as_str().as_bytes());
        for (name, value) in &self.members {
            body.push(b',');
            write_text(&mut body, name);
            body.push(b':');
            match value {
                Value::String(text) => write_text(&mut body, text),
                value => write(&mut body, value),
            }
        }
        body.push(b'}');
        body
    }
}

const TYPE: &str = "urn:corelane:problem:";

/// Writes a JSON string. Most text does not need escaping, and it is faster to check all bytes at
/// once.
fn write_text(body: &mut Vec<u8>, text: &str) {
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        return write(body, text);
    }
    body.push(b'"');
    body.extend_from_slice(text.as_bytes());
    body.push(b'"');
}

fn write<T: serde::Serialize + ?Sized>(body: &mut Vec<u8>, value: &T) {
    // Writing to a vector, serialising text and serialising a value cannot fail.
    let _ = serde_json::to_writer(body, value);
}

impl From<StatusCode> for Problem {
    /// A problem fully described by its status. The slug is the reason phrase.
    fn from(status: StatusCode) -> Self {
        Problem { status, kind: None, members: Vec::new(), headers: Vec::new() }
    }
}

/// A service that returns a problem as its error, or as the source of its error, sends it as the
/// response.
impl std::error::Error for Problem {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = self.members.iter().find(|(name, _)| name == "detail");
        let detail = detail.and_then(|(_, value)| value.as_str());
        write!(
            f,
            "{}{}{}",
            self.status,
            if detail.is_some() { ": " } else { "" },
            detail.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn status_gives_a_stable_slug() {
        let body = Problem::from(StatusCode::METHOD_NOT_ALLOWED).body();
        let wanted = br#"{"type":"urn:corelane:problem:method-not-allowed","title":"Method Not Allowed","status":405}"#;
        assert_eq!(body, wanted);
        let teapot: Value = read(Problem::from(StatusCode::IM_A_TEAPOT));
        assert_eq!(teapot["type"], "urn:corelane:problem:i-m-a-teapot");
    }

    #[test]
    fn members_are_told_once_and_escaped() {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "a\"b")
            .detail("first")
            .member("status", 200)
            .member("para\nmeter", "\u{7}")
            .detail("a \"line\"\n");
        let wanted = json!({
            "type": "urn:corelane:problem:a\"b",
            "title": "Bad Request",
            "status": 400,
            "detail": "a \"line\"\n",
            "para\nmeter": "\u{7}",
        });
        assert_eq!(read(problem), wanted);
    }

    fn read(problem: Problem) -> Value {
        serde_json::from_slice(&problem.body()).expect("JSON")
    }
}
