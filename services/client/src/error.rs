//! Why a call failed.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use corelane::Problem;
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};

/// Any error.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a call failed. A response is not an error, whatever its status, unless the callee is
/// overloaded.
///
/// [`Error::problem`] is the response for the current request's client. It is also the error's
/// source, so a service that returns this error sends that response. With the `axum` feature, the
/// error converts into that response.
#[derive(Clone, Debug)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    kind: ErrorKind,
    service: Arc<str>,
    endpoint: Option<SocketAddr>,
    reason: String,
    problem: Problem,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No time was left for the call, or its time passed.
    Deadline,
    /// The callee rejected the call with 503 and `Retry-After`, or with 429. Do not repeat it
    /// before `retry_after` has passed.
    Overloaded {
        /// The callee's `Retry-After`.
        retry_after: Duration,
    },
    /// No endpoint of the callee is known.
    Unresolved,
    /// No connection could be made, so the callee did not receive the call.
    Unreachable,
    /// The connection broke, so the callee may have received the call.
    Failed,
    /// The response's body broke, or is larger than [`Client::fetch`](crate::Client::fetch) allows.
    Body,
}

impl Error {
    pub(crate) fn new(
        kind: ErrorKind,
        service: &Arc<str>,
        endpoint: Option<SocketAddr>,
        reason: impl fmt::Display,
    ) -> Self {
        let problem = problem(kind, service);
        let (service, reason) = (Arc::clone(service), reason.to_string());
        Error(Box::new(Parts { kind, service, endpoint, reason, problem }))
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The name of the called service.
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// The endpoint that failed, if one was chosen.
    pub fn endpoint(&self) -> Option<SocketAddr> {
        self.0.endpoint
    }

    /// The response for the current request's client: 503 with `Retry-After` if the callee is
    /// overloaded or the time is up, otherwise 502.
    pub fn problem(&self) -> Problem {
        self.0.problem.clone()
    }
}

fn problem(kind: ErrorKind, service: &str) -> Problem {
    let unavailable = |slug, detail: String, after: u64| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, slug)
            .detail(detail)
            .header(RETRY_AFTER, HeaderValue::from(after))
    };
    match kind {
        ErrorKind::Deadline => {
            let detail = format!("{service} did not respond before the request's deadline");
            unavailable("deadline-exceeded", detail, 1)
        }
        ErrorKind::Overloaded { retry_after } => {
            let after = retry_after.as_secs().max(1);
            unavailable("overloaded", format!("{service} is overloaded"), after)
        }
        _ => Problem::from(StatusCode::BAD_GATEWAY).detail(format!("{service} did not respond")),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { service, endpoint, reason, .. } = &*self.0;
        match endpoint {
            Some(endpoint) => write!(f, "calling {service} at {endpoint}: {reason}"),
            None => write!(f, "calling {service}: {reason}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0.problem)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        error.0.problem
    }
}

#[cfg(feature = "axum")]
impl axum_core::response::IntoResponse for Error {
    fn into_response(self) -> axum_core::response::Response {
        tracing::warn!(error = %self, "a call failed");
        Problem::from(self).into_response().map(axum_core::body::Body::new)
    }
}

/// Why a called service cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("calls to {service}: {reason}")]
pub struct StartError {
    pub(crate) service: String,
    pub(crate) reason: String,
}
