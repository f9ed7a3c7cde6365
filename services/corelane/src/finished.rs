//! What an observer is told of each request.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderValue, StatusCode, Version};

use crate::clock::Tick;
use crate::lane::Lane;
use crate::request_id::{Id, RequestId};
use crate::trace_context::TraceContext;

/// A request that has ended, as [`Builder::observer`](crate::Builder::observer) is told of it.
///
/// It names the route by its template: neither the path nor the query that was asked for, nor any
/// other field of the request, may be kept by whoever reads this.
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
    /// Its method, or `other` for one that metrics do not know either.
    pub method: &'static str,
    /// Template of its route, or `other`.
    pub route: &'a str,
    /// The version of HTTP that it came with.
    pub version: Version,
    /// What it was answered; `None` if its client left before that, or the server ended.
    pub status: Option<StatusCode>,
    /// Whether the socket took the whole reply. Otherwise the client left, or the reply was cut.
    pub complete: bool,
    /// Bytes of the reply's body that were ready to be sent.
    pub body_bytes: u64,
    /// How long its parts took.
    pub times: Times,
    /// Its place in a trace, with [`Builder::traces`](crate::Builder::traces).
    pub trace: Option<&'a TraceContext>,
    /// Set where this request is a span of its own, which [`Finished::trace`] names.
    pub span: Option<Span<'a>>,
    pub(crate) id: Option<&'a Id>,
    pub(crate) begun: Tick,
}

/// A request that is to be recorded as a span of its trace.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Span<'a> {
    /// The span of the caller; `None` where the trace begins here.
    pub parent: Option<[u8; 8]>,
    /// The host and port that were asked for, as the client named them.
    pub authority: Option<&'a HeaderValue>,
}

/// The parts of a request's time; their sum, but for `accept`, is the whole of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// From the accept of its connection to its header, if it was the first there.
    pub accept: Option<Duration>,
    /// From its header to the start of its handler, or to its end if none was started.
    pub queue: Duration,
    /// From the start of its handler to the head of the reply.
    pub handler: Option<Duration>,
    /// From the head of the reply until the socket has taken the last byte; `None` where it never
    /// did. 0 if it took them at once.
    pub write: Option<Duration>,
}

impl Finished<'_> {
    /// Its id, with [`Builder::request_ids`](crate::Builder::request_ids).
    pub fn id(&self) -> Option<RequestId> {
        self.id.map(Id::id)
    }

    /// When its header came, by the wall clock: as it is now, less the time that has passed since.
    pub fn began(&self) -> SystemTime {
        let passed = Duration::from_nanos(Tick::now().since(self.begun));
        SystemTime::now().checked_sub(passed).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// What a lane tells of its requests to.
pub(crate) type Observer = Box<dyn Fn(&Finished<'_>)>;

type Factory = dyn Fn(&Lane) -> Observer + Send + Sync;

/// Makes the observer of each lane.
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
