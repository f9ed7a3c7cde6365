//! Requests that another thread serves for a lane. Slow lanes implement this interface.

use std::any::Any;
use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::load::table::LongestPoll;
use crate::message::forwarded::Trust;
use crate::metrics::RequestRefusal;
use crate::metrics::kind::KindIndex;
use crate::request::body::Incoming;
use crate::request::body_watch::BodyWatch;
use crate::request::client::ConnectionInfo;
use crate::request::record::RequestRecord;
use crate::request::routes::Routes;

/// Takes over requests of one lane.
pub(crate) trait Offload: Debug {
    /// Whether this lane's slow lane is idle.
    fn is_idle(&self) -> bool;

    /// Another lane that is idle and whose slow lane is idle, if this lane has so much other work
    /// that a request is better served there.
    fn relief(&self, work: Duration) -> Option<usize>;

    /// Hands a request over to the slow lane of lane `to`. Returns the request if that slow lane
    /// cannot take it.
    fn hand_over(
        &self,
        request: HandedOver,
        to: usize,
        now: Tick,
    ) -> Result<Box<dyn Away>, Box<Request<Incoming>>>;
}

/// A request for another thread.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) request: Request<Incoming>,
    /// The facts that the handler may read.
    pub(crate) facts: Facts,
    /// The parts of the request's record that handlers can read.
    pub(crate) record: Option<Box<RequestRecord>>,
    /// Longest time from the header to the head of the response.
    pub(crate) allowed: Duration,
    /// Expected lane time in nanoseconds.
    pub(crate) expected: u64,
}

/// A copy of the lane's facts about a request. The connection stays with the lane.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) info: ConnectionInfo,
    /// The client's address, as far as the connection shows it.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) begun: Tick,
    pub(crate) kind: KindIndex,
    pub(crate) body: Option<Arc<BodyWatch>>,
}

/// A request that its lane handed over. When this is dropped, the other thread drops the request.
pub(crate) trait Away: Debug {
    /// Longest time from the header to the head of the response, which the handler may change.
    fn allowed(&self) -> Duration;

    /// Waits for the result; `None` if the slow lane has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<FarAnswer>>;
}

/// The result of a request that a lane handed over.
pub(crate) struct FarAnswer {
    pub(crate) outcome: Outcome,
    /// When the handler started.
    pub(crate) started: Tick,
    /// CPU time of the handler in nanoseconds.
    pub(crate) held: u64,
    pub(crate) longest: LongestPoll,
    /// The template by which the handler named the route.
    pub(crate) route: Option<Box<str>>,
    /// The reason why the limits of the route reject the request.
    pub(crate) refused: Option<RequestRefusal>,
}

impl Debug for FarAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarAnswer").field("held", &self.held).finish_non_exhaustive()
    }
}

/// What the handler returned, or the panic that ended it.
pub(crate) type Outcome = Result<Result<Response<FarBody>, BoxError>, Box<dyn Any + Send>>;

/// A body from another thread.
pub(crate) type FarBody = Box<dyn Body<Data = Bytes, Error = BoxError> + Send + Unpin>;
