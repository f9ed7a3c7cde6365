//! One call: its deadline, its attempts and its outcome.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane::RequestId;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::request::Parts;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};
use http_body::Body as HttpBody;
use hyper_util::client::legacy::Error as HttpError;
use tokio::time::timeout_at;

use crate::body::{Body, Replay, Source};
use crate::connect::Way;
use crate::error::{BoxError, Error, ErrorKind};
use crate::lane::{Chosen, Lane, Ticket};
use crate::metrics::Outcome;
use crate::picker::{Handled, speed};
use crate::shared::Known;

/// Maximum attempts of a call.
const ATTEMPTS: usize = 3;

/// The remaining time of a call in milliseconds. Envoy uses this field, too.
const REMAINING: HeaderName = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const NOT_STARTED: HeaderName = HeaderName::from_static("corelane-not-started");
const LOAD_REPORT: HeaderName = HeaderName::from_static("endpoint-load-metrics");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// Whether a failed attempt may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    Never,
    /// Its endpoint is overloaded.
    Elsewhere,
    Anywhere,
}

/// A call in progress.
pub(crate) struct Call {
    lane: Arc<Lane>,
    begun: Instant,
    deadline: tokio::time::Instant,
    request: Parts,
    body: Source,
    is_grpc: bool,
    /// The endpoint of the current attempt.
    current: Option<SocketAddr>,
    attempts: usize,
    outcome: Outcome,
}

impl Drop for Call {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        self.lane.counters.call(self.outcome, took);
        let (service, outcome) = (&*self.lane.shared.name, self.outcome.name());
        tracing::debug!(service, outcome, attempts = self.attempts, ?took, "call");
    }
}

impl Call {
    pub(crate) fn new<B>(lane: Arc<Lane>, request: Request<B>) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (mut request, body) = request.into_parts();
        let (begun, settings) = (Instant::now(), &lane.shared.settings);
        let latest = corelane::deadline().and_then(|at| at.checked_sub(settings.margin));
        let deadline = latest.unwrap_or(begun + settings.timeout).min(begun + settings.timeout);
        pass_on(&mut request.headers);
        request.headers.remove(HOST);
        let kind = request.headers.get(CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let is_http2 = settings.target.scheme.is_http2();
        request.version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        Call {
            lane,
            begun,
            deadline: deadline.into(),
            request,
            body: Source::new(body),
            is_grpc,
            current: None,
            attempts: 0,
            outcome: Outcome::Cancelled,
        }
    }

    pub(crate) async fn run(&mut self) -> Result<Response<Body>, Error> {
        let deadline = self.deadline;
        let result = match self.remaining() {
            Duration::ZERO => Err(self.error(ErrorKind::Deadline, "no time is left")),
            _ => match timeout_at(deadline, self.attempts()).await {
                Ok(result) => result,
                Err(_) => {
                    if let Some(address) = self.current {
                        self.lane.learn(address, Handled::Badly, None);
                    }
                    Err(self.error(ErrorKind::Deadline, "the time is up"))
                }
            },
        };
        self.outcome = match &result {
            Ok(response) if response.status().is_client_error() => Outcome::ClientError,
            Ok(response) if response.status().is_server_error() => Outcome::ServerError,
            Ok(_) => Outcome::Ok,
            Err(error) => match error.kind() {
                ErrorKind::Deadline => Outcome::Deadline,
                ErrorKind::Overloaded { .. } => Outcome::Overloaded,
                ErrorKind::Unresolved => Outcome::Unresolved,
                ErrorKind::Unreachable => Outcome::Unreachable,
                ErrorKind::Failed | ErrorKind::Body => Outcome::Failed,
            },
        };
        result
    }

    fn remaining(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(tokio::time::Instant::now());
        // Callees count in milliseconds.
        Duration::from_millis(left.as_millis() as u64)
    }

    fn error(&self, kind: ErrorKind, reason: impl std::fmt::Display) -> Error {
        Error::new(kind, &self.lane.shared.name, self.current, reason)
    }

    async fn attempts(&mut self) -> Result<Response<Body>, Error> {
        let (lane, mut tried) = (Arc::clone(&self.lane), Vec::new());
        lane.shared.budget.earn();
        let (mut ticket, mut way) = self.first().await?;
        loop {
            self.attempts += 1;
            self.current = Some(ticket.address);
            let address = ticket.address;
            let sent = way.http.request(self.attempt(&way)).await;
            let (result, retry) = match sent {
                Ok(response) => self.responded(response, ticket),
                Err(error) => self.failed(&error, ticket),
            };
            let again = retry == Retry::Anywhere;
            if retry == Retry::Never || self.attempts == ATTEMPTS || !self.body.is_whole() {
                return result;
            }
            tried.push(address);
            let Chosen::Endpoint(next, next_way) = lane.choose(&tried, again) else {
                return result;
            };
            if !lane.shared.budget.take() {
                lane.counters.denied.fetch_add(1, Relaxed);
                return result;
            }
            lane.counters.retries.fetch_add(1, Relaxed);
            (ticket, way) = (next, next_way);
        }
    }

    /// The first endpoint, once DNS has answered.
    async fn first(&self) -> Result<(Ticket, Arc<Way>), Error> {
        loop {
            match self.lane.choose(&[], true) {
                Chosen::Endpoint(ticket, way) => return Ok((ticket, way)),
                Chosen::Nothing(reason) => return Err(self.error(ErrorKind::Unresolved, reason)),
                Chosen::Wait(mut known) => {
                    let ended = "the thread that queries DNS has ended";
                    let changed = known.wait_for(|known| *known != Known::Pending).await;
                    changed.map_err(|_| self.error(ErrorKind::Unresolved, ended))?;
                }
            }
        }
    }

    fn attempt(&self, way: &Way) -> Request<Replay> {
        let mut request = Request::new(self.body.replay());
        let mut uri = http::uri::Parts::default();
        let (scheme, authority) = &way.origin;
        (uri.scheme, uri.authority) = (Some(scheme.clone()), Some(authority.clone()));
        let path = self.request.uri.path_and_query().cloned();
        uri.path_and_query = path.or_else(|| Some(http::uri::PathAndQuery::from_static("/")));
        *request.uri_mut() = Uri::from_parts(uri).expect("scheme, authority and path are a URI");
        *request.method_mut() = self.request.method.clone();
        *request.version_mut() = self.request.version;
        *request.headers_mut() = self.request.headers.clone();
        let remaining = self.remaining().as_millis() as u64;
        let fields = request.headers_mut();
        fields.insert(REMAINING, HeaderValue::from(remaining));
        if self.is_grpc && !fields.contains_key(GRPC_TIMEOUT) {
            // At most 8 digits.
            let text = format!("{}m", remaining.min(99_999_999));
            fields.extend(HeaderValue::try_from(text).ok().map(|value| (GRPC_TIMEOUT, value)));
        }
        request
    }

    fn responded(
        &self,
        mut response: Response<hyper::body::Incoming>,
        ticket: Ticket,
    ) -> (Result<Response<Body>, Error>, Retry) {
        let (status, address) = (response.status(), ticket.address);
        let fields = response.headers_mut();
        let speed = fields.remove(LOAD_REPORT).and_then(|report| speed(report.as_bytes()));
        let is_marked = fields.remove(NOT_STARTED).is_some();
        let overload = overload(status, fields).or(is_marked.then_some(Duration::from_secs(1)));
        let handled = match overload {
            Some(after) => Handled::Busy { until: Instant::now() + after },
            None if status.is_server_error() => Handled::Badly,
            None => Handled::Well,
        };
        self.lane.learn(address, handled, speed);
        let retry = if is_marked { Retry::Elsewhere } else { Retry::Never };
        let result = match overload {
            Some(retry_after) if !self.is_grpc => {
                Err(self.error(ErrorKind::Overloaded { retry_after }, status))
            }
            _ => {
                let (deadline, service) = (self.deadline, &self.lane.shared.name);
                Ok(response.map(|body| Body::new(body, deadline, service, ticket)))
            }
        };
        (result, retry)
    }

    fn failed(&self, error: &HttpError, ticket: Ticket) -> (Result<Response<Body>, Error>, Retry) {
        let (kind, handled, retry) = match fate(error) {
            Fate::Unreachable => (ErrorKind::Unreachable, Handled::Unreachable, Retry::Anywhere),
            Fate::NeverStarted => (ErrorKind::Failed, Handled::Broken, Retry::Anywhere),
            Fate::OwnBody => (ErrorKind::Failed, Handled::Unknown, Retry::Never),
            Fate::Broken if is_idempotent(&self.request.method) => {
                (ErrorKind::Failed, Handled::Broken, Retry::Anywhere)
            }
            Fate::Broken => (ErrorKind::Failed, Handled::Broken, Retry::Never),
        };
        self.lane.learn(ticket.address, handled, None);
        (Err(self.error(kind, chain(error))), retry)
    }
}

/// What became of a request without a response.
enum Fate {
    Unreachable,
    /// The callee did not process it.
    NeverStarted,
    /// The body of the request failed.
    OwnBody,
    Broken,
}

fn fate(error: &HttpError) -> Fate {
    if error.is_connect() {
        return Fate::Unreachable;
    }
    let mut cause: Option<&(dyn StdError + 'static)> = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_canceled() {
                return Fate::NeverStarted;
            }
            if error.is_user() {
                return Fate::OwnBody;
            }
        }
        let refused = |error: &h2::Error| {
            error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        };
        if error.downcast_ref().is_some_and(refused) {
            return Fate::NeverStarted;
        }
        cause = error.source();
    }
    Fate::Broken
}

/// An error with its causes.
fn chain(error: &HttpError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// RFC 9110 section 9.2.2.
fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(method)
}

/// The time after which an overloaded callee accepts calls again.
fn overload(status: StatusCode, fields: &HeaderMap) -> Option<Duration> {
    let after = fields.get(RETRY_AFTER).map(|after| {
        // A date is rare, and a second is never wrong.
        let seconds = after.to_str().ok().and_then(|after| after.trim().parse().ok());
        Duration::from_secs(seconds.unwrap_or(1))
    });
    match status {
        StatusCode::SERVICE_UNAVAILABLE => after,
        StatusCode::TOO_MANY_REQUESTS => after.or(Some(Duration::from_secs(1))),
        _ => None,
    }
}

/// Adds the id, the trace and the baggage of the current request.
fn pass_on(fields: &mut HeaderMap) {
    let mut add = |name: HeaderName, value: Option<HeaderValue>| {
        if let (Some(value), false) = (value, fields.contains_key(&name)) {
            fields.insert(name, value);
        }
    };
    let id = corelane::request_id();
    add(REQUEST_ID, id.as_ref().and_then(|id: &RequestId| id.as_str().parse().ok()));
    if let Some(trace) = corelane::trace_context() {
        add(TRACEPARENT, Some(trace.traceparent()));
        add(TRACESTATE, trace.tracestate().cloned());
        add(BAGGAGE, trace.baggage().cloned());
    }
}
