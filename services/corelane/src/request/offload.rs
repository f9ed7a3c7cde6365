//! The interface to other threads that serve requests for a lane, which slow lanes implement.

use std::any::Any;
use std::fmt::{self, Debug};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;

use crate::base::clock::{Millis, Tick};
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

pub(crate) trait Offload: Debug {
    fn is_idle(&self) -> bool;

    /// An idle lane with an idle slow lane, if this lane has so much other work that the request is
    /// better served there.
    fn relief(&self, work: Duration) -> Option<usize>;

    /// Hands a request to the slow lane of lane `to`. Returns the request if that slow lane cannot
    /// take it.
    fn hand_over(
        &self,
        request: HandedOver,
        to: usize,
        now: Tick,
    ) -> Result<Box<dyn Away>, Box<Request<Incoming>>>;
}

#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) request: Request<Incoming>,
    pub(crate) facts: Facts,
    pub(crate) record: Option<Box<RequestRecord>>,
    pub(crate) allowed: Duration,
    pub(crate) expected: u64,
}

/// A copy of the lane's information about a request. The connection stays with the lane.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) info: ConnectionInfo,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) begun: Tick,
    pub(crate) remaining: Millis,
    pub(crate) kind: KindIndex,
    pub(crate) body: Option<Arc<BodyWatch>>,
}

/// A request that its lane handed over. Dropping this makes the other thread drop the request.
pub(crate) trait Away: Debug {
    /// Maximum time from the header to the response head; the handler may change this limit.
    fn allowed(&self) -> Duration;

    /// Waits for the result. Returns `None` if the slow lane has exited.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<FarAnswer>>;
}

pub(crate) struct FarAnswer {
    pub(crate) outcome: Outcome,
    pub(crate) started: Tick,
    pub(crate) held: u64,
    pub(crate) longest: LongestPoll,
    pub(crate) route: Option<Box<str>>,
    pub(crate) refused: Option<RequestRefusal>,
}

impl Debug for FarAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarAnswer").field("held", &self.held).finish_non_exhaustive()
    }
}

pub(crate) type Outcome = Result<Result<Response<FarBody>, BoxError>, Box<dyn Any + Send>>;

pub(crate) type FarBody = Box<dyn Body<Data = Bytes, Error = BoxError> + Send + Unpin>;
