//! Error responses for gRPC clients, which do not read problem documents.
//!
//! The entire response is a head with the status (Trailers-Only in
//! [PROTOCOL-HTTP2](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)). The same
//! applies to gRPC-Web.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Method, Request, StatusCode};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Time that a client must wait before it retries a call.
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grpc {
    Http2,
    Web,
    /// gRPC-Web in base64.
    WebText,
}

impl Grpc {
    /// `None` if the request is not a gRPC call.
    #[inline]
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Grpc> {
        match *request.method() {
            Method::POST => Grpc::of_type(request.headers().get(CONTENT_TYPE)?.as_bytes()),
            _ => None,
        }
    }

    fn of_type(kind: &[u8]) -> Option<Grpc> {
        let kinds: [(&[u8], Grpc); 3] = [
            (b"application/grpc-web-text", Grpc::WebText),
            (b"application/grpc-web", Grpc::Web),
            (b"application/grpc", Grpc::Http2),
        ];
        let is = |name: &[u8]| match kind.split_at_checked(name.len()) {
            Some((start, rest)) => {
                start.eq_ignore_ascii_case(name) && matches!(rest, [] | [b'+' | b';' | b' ', ..])
            }
            None => false,
        };
        kinds.iter().find(|(name, _)| is(name)).map(|(_, grpc)| *grpc)
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Grpc::Http2 => "application/grpc",
            Grpc::Web => "application/grpc-web",
            Grpc::WebText => "application/grpc-web-text",
        })
    }
}

/// The status that a gRPC client gets instead of a problem document.
#[derive(Debug)]
pub(crate) struct GrpcStatus {
    code: u8,
    message: HeaderValue,
}

impl GrpcStatus {
    /// The status of a problem. `is_late`: the request's time limit has passed.
    pub(crate) fn new(status: StatusCode, is_late: bool, message: &str) -> Self {
        let code = match status {
            _ if is_late => 4,
            // The mapping from doc/http-grpc-status-mapping.md, except that clients do not retry a
            // call that took too long or was too large.
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => 4,
            StatusCode::FORBIDDEN => 7,
            StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => 8,
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => 12,
            StatusCode::BAD_REQUEST | StatusCode::INTERNAL_SERVER_ERROR => 13,
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE => 14,
            StatusCode::UNAUTHORIZED => 16,
            _ => 2,
        };
        let message = HeaderValue::from_str(&encoded(message));
        GrpcStatus { code, message: message.unwrap_or(HeaderValue::from_static("")) }
    }

    /// Turns the head of a problem document into the whole response to a call.
    pub(crate) fn replace(self, grpc: Grpc, fields: &mut HeaderMap) {
        fields.remove(CONTENT_LENGTH);
        fields.insert(CONTENT_TYPE, grpc.content_type());
        // Clients retry UNAVAILABLE.
        let after = fields.remove(RETRY_AFTER).filter(|_| self.code == 14);
        let seconds = after.and_then(|after| after.to_str().ok()?.parse::<u64>().ok());
        if let Some(seconds) = seconds {
            fields.insert(PUSHBACK, HeaderValue::from(seconds.saturating_mul(1000)));
        }
        self.write(fields);
    }

    pub(crate) fn write(self, fields: &mut HeaderMap) {
        fields.insert(STATUS, HeaderValue::from(u16::from(self.code)));
        fields.insert(MESSAGE, self.message);
    }
}

pub(crate) fn has_failed(trailers: &HeaderMap) -> bool {
    trailers.get(STATUS).is_some_and(|status| status != "0")
}

/// Percent-encodes everything except visible ASCII and spaces.
fn encoded(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b'%' | 0..b' ' | 0x7f.. => text.push_str(&format!("%{byte:02X}")),
            _ => text.push(char::from(byte)),
        }
    }
    text
}
