//! The information that an observer receives about a request.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode, Version};

use crate::base::clock::Tick;
use crate::load::lane::Lane;
use crate::message::request_id::{Id, RequestId};
use crate::message::trace_context::TraceContext;

/// A finished request, as received by [`Builder::observer`](crate::Builder::observer).
///
/// It contains the route template, but not the path, the query or any other field of the request.
///
/// ```
/// use corelane::{Finished, Server};
///
/// let builder = Server::builder().observer(|lane| {
///     let lane = lane.index();
///     move |request: &Finished<'_>| {
///         if request.status.is_none_or(|status| status.is_server_error()) {
///             eprintln!("lane {lane}: {} {} failed", request.method, request.route);
///         }
///     }
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finished<'a> {
    /// The method, or `other` for methods without a metrics label.
    pub method: &'static str,
    /// The route template, or `other`.
    pub route: &'a str,
    /// The request's HTTP version.
    pub version: Version,
    /// The response status, or `None` if the client disconnected first or the server stopped.
    pub status: Option<StatusCode>,
    /// Whether the complete response was written to the socket. If false, the client disconnected
    /// or the response was cut.
    pub complete: bool,
    /// Number of response body bytes that were ready to send.
    pub body_bytes: u64,
    /// The reason why the server abandoned the client, if it did.
    pub cut: Option<Cut>,
    /// Duration of each phase.
    pub times: Times,
    /// The client's address from [`client_addr`](crate::client_addr), if
    /// [`Builder::client_addresses`](crate::Builder::client_addresses) is set.
    pub client: Option<IpAddr>,
    /// The request's trace context, if [`Builder::traces`](crate::Builder::traces) is set.
    pub trace: Option<&'a TraceContext>,
    /// Set if this request is recorded as a span, which is identified by [`Finished::trace`].
    pub span: Option<Span<'a>>,
    pub(crate) id: Option<&'a Id>,
    pub(crate) begun: Tick,
}

/// The reason why the server abandoned a request's client.
///
/// ```
/// assert_eq!(corelane::Cut::SlowReader.as_str(), "slow_reader");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// The client did not read any of the response for [`Timeouts::write`](crate::Timeouts::write).
    WriteTimeout,
    /// The client read the response at less than [`Limits::send_rate`](crate::Limits::send_rate).
    SlowReader,
    /// The client did not read any of the response for 5 s while the server was above
    /// [`Limits::unsent_bytes`](crate::Limits::unsent_bytes).
    UnsentBytes,
    /// The client did not send any of the body for [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// The client sent the body at less than [`Limits::receive_rate`](crate::Limits::receive_rate).
    SlowBody,
}

impl Cut {
    /// The reason's name in the `reason` metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Cut::WriteTimeout => "write_timeout",
            Cut::SlowReader => "slow_reader",
            Cut::UnsentBytes => "unsent_bytes",
            Cut::BodyTimeout => "body_timeout",
            Cut::SlowBody => "slow_body",
        }
    }

    pub(crate) fn ends_reply(self) -> bool {
        matches!(self, Cut::WriteTimeout | Cut::SlowReader | Cut::UnsentBytes)
    }
}

/// A request's span in its trace.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Span<'a> {
    /// The caller's span, or `None` if the trace starts here.
    pub parent: Option<[u8; 8]>,
    /// The requested host and port as sent by the client.
    pub authority: Option<&'a HeaderValue>,
}

/// A request's phases. All durations except `accept` add up to the request's total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// From the accept of the connection to the header. Set only for a connection's first request.
    pub accept: Option<Duration>,
    /// From the header to the start of the handler, or to the end if no handler started.
    pub queue: Duration,
    /// From the start of the handler to the response head.
    pub handler: Option<Duration>,
    /// From the response head until the socket has accepted the last byte: 0 if that happened at
    /// once, or `None` if it never happened.
    pub write: Option<Duration>,
}

impl Finished<'_> {
    /// The request's id, if [`Builder::request_ids`](crate::Builder::request_ids) is set.
    pub fn id(&self) -> Option<RequestId> {
        self.id.map(Id::id)
    }

    /// The time when the header arrived, calculated as the current wall-clock time minus the
    /// elapsed time.
    pub fn began(&self) -> SystemTime {
        let passed = Duration::from_nanos(Tick::now().since(self.begun));
        SystemTime::now().checked_sub(passed).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

pub(crate) type Observer = Box<dyn Fn(&Finished<'_>)>;

type Factory = dyn Fn(&Lane) -> Observer + Send + Sync;

#[derive(Clone)]
pub(crate) struct Observers(Arc<Factory>);

impl Observers {
    pub(crate) fn new<F, O>(factory: F) -> Self
    where
        F: Fn(&Lane) -> O + Send + Sync + 'static,
        O: Fn(&Finished<'_>) + 'static,
    {
        Observers(Arc::new(move |lane| Box::new(factory(lane))))
    }

    pub(crate) fn of(&self, lane: &Lane) -> Observer {
        (self.0)(lane)
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observers")
    }
}
