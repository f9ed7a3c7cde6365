//! Responses that the server itself creates for requests that it rejects and for service errors.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderValue, RETRY_AFTER};
use http::uri::{Authority, PathAndQuery};
use http::{Request, StatusCode, Version};
use http_body::Body;
#[cfg(feature = "http2")]
use hyper::ext::Protocol;

use crate::base::error::BoxError;
use crate::message::conformance;
use crate::message::problem::{DEADLINE_EXCEEDED, Problem};
use crate::metrics::RequestRefusal;
use crate::request::blocking::BlockingError;
use crate::request::body::BodyError;
use crate::request::current;
use crate::request::in_flight::InFlightRequest;
use crate::request::lane_state::LaneState;

/// The largest body that a [`RouteLimits`](crate::RouteLimits) layer of this process allows. If
/// this size exceeds the server's limit, the server calls its service for bodies of any size,
/// because only the service knows the request's route.
static LARGEST_BODY: AtomicU64 = AtomicU64::new(0);

pub(super) fn raise_largest_body(bytes: u64) {
    LARGEST_BODY.fetch_max(bytes, Relaxed);
}

/// `Retry-After` is the time that the lane needs for its expected work.
pub(super) fn overloaded(lane: &LaneState) -> Problem {
    let wait = Duration::from_nanos(lane.metrics().expected.get()).as_secs().clamp(1, 60);
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded")
        .detail("too many requests are queued to answer this one in time")
        .header(RETRY_AFTER, HeaderValue::from(wait))
}

/// The response to requests that arrive while clients are not reading earlier responses.
pub(super) fn crowded() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded")
        .detail("too many bytes of other responses wait for their clients")
        .header(RETRY_AFTER, HeaderValue::from_static("5"))
}

/// Returns the response for an expired request.
pub(super) fn expired() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, DEADLINE_EXCEEDED)
        .detail("the request took longer than the server allows")
        .header(RETRY_AFTER, HeaderValue::from_static("1"))
}

pub(super) fn body_timed_out() -> Problem {
    Problem::from(StatusCode::REQUEST_TIMEOUT).detail("timed out waiting for the request body")
}

/// The reason to reject the request, if any.
pub(super) fn refusal(
    request: &mut Request<hyper::body::Incoming>,
    lane: &LaneState,
) -> Option<(RequestRefusal, Problem)> {
    if let Some(problem) = conformance::refusal(request, lane.secure) {
        return Some((RequestRefusal::Invalid, problem));
    }
    // For HTTP/1.1, the stream enforces the size limit, and hyper enforces the limit on fields.
    if request.version() == Version::HTTP_2 {
        let (fields, bytes) = (lane.limits.headers, lane.limits.header_bytes);
        if request.headers().len() > fields {
            return Some((RequestRefusal::TooManyHeaders, too_many_headers(fields)));
        }
        if header_list_bytes(request) > bytes {
            return Some((RequestRefusal::HeaderTooLarge, header_too_large(bytes, true)));
        }
    }
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if target > lane.limits.uri_bytes {
        let problem = Problem::from(StatusCode::URI_TOO_LONG);
        let allowed = lane.limits.uri_bytes;
        let problem =
            problem.detail(format!("the request target may have at most {allowed} bytes"));
        return Some((RequestRefusal::UriTooLong, problem));
    }
    let (bytes, allowed) = (request.body().size_hint().lower(), lane.limits.body_bytes);
    // Otherwise, only the service knows the route's limit.
    if bytes > allowed && LARGEST_BODY.load(Relaxed) <= allowed {
        return Some((RequestRefusal::BodyTooLarge, too_large(allowed)));
    }
    if request.version() == Version::HTTP_2 {
        conformance::set_host(request);
    }
    None
}

/// Returns the response for a request with more than `allowed` header fields.
pub(crate) fn too_many_headers(allowed: usize) -> Problem {
    let problem = Problem::from(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    problem.detail(format!("a request may have at most {allowed} header fields"))
}

/// `is_list` means that bytes are counted as in HTTP/2.
pub(crate) fn header_too_large(allowed: usize, is_list: bool) -> Problem {
    let problem = Problem::from(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    problem.detail(match is_list {
        true => {
            format!("a header list may have at most {allowed} bytes, counting 32 for each field")
        }
        false => format!("a header section may have at most {allowed} bytes"),
    })
}

/// Minimum size of an HTTP/1.1 request's header section, with `: ` and CRLF for each field.
pub(super) fn header_bytes<B>(request: &Request<B>) -> usize {
    request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

/// Header list size of an HTTP/2 request (RFC 9113 section 6.5.2).
pub(super) fn header_list_bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let pseudo = [
        (":method", Some(request.method().as_str())),
        (":scheme", uri.scheme_str()),
        (":authority", uri.authority().map(Authority::as_str)),
        (":path", uri.path_and_query().map(PathAndQuery::as_str)),
        #[cfg(feature = "http2")]
        (":protocol", request.extensions().get().map(Protocol::as_str)),
    ];
    let pseudo = pseudo.iter().filter_map(|(name, value)| Some(name.len() + (*value)?.len()));
    // A Host field next to `:authority` has the same value, and the server may have added it.
    let fields = request.headers().iter();
    let fields = fields.filter(|(name, _)| *name != HOST || uri.authority().is_none());
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len());
    pseudo.chain(fields).map(|bytes| bytes + 32).sum()
}

pub(super) fn too_large(allowed: u64) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large")
        .detail(format!("a request body may have at most {allowed} bytes"))
}

/// The response for a service error. Logs the details, which the client must not see.
pub(super) fn failure(error: BoxError, in_flight: &InFlightRequest) -> Problem {
    let lane = &in_flight.lane;
    let (whole, mut cause) = (&error, Some(error.as_ref() as &(dyn StdError + 'static)));
    while let Some(error) = cause {
        // These errors are counted where they occur.
        if error.is::<BlockingError>() {
            return overloaded(lane);
        }
        if let Some(problem) = error.downcast_ref::<Problem>() {
            current::lending(&in_flight.request_record, || {
                tracing::warn!(lane = lane.index, error = %whole, "a service returned a problem");
            });
            return problem.clone();
        }
        match error.downcast_ref() {
            Some(BodyError::TooLarge) => return too_large(in_flight.body_limit()),
            Some(BodyError::TimedOut) => return body_timed_out(),
            Some(BodyError::Read(error)) => {
                current::lending(&in_flight.request_record, || {
                    tracing::debug!(lane = lane.index, %error, "failed to read a request body");
                });
                // Nothing more can be read from this connection.
                let close = HeaderValue::from_static("close");
                return Problem::from(StatusCode::BAD_REQUEST).header(CONNECTION, close);
            }
            None => cause = error.source(),
        }
    }
    current::lending(&in_flight.request_record, || {
        tracing::error!(lane = lane.index, %error, "a service returned an error");
    });
    Problem::from(StatusCode::INTERNAL_SERVER_ERROR)
}
