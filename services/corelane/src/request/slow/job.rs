//! A request for a slow lane.

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use http::{Request, Response};
use tokio::sync::oneshot;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::load::tail::LongestPoll;
use crate::metrics::RequestRefusal;
use crate::request::body::Incoming;
use crate::request::guest::Guest;
use crate::request::record::RequestRecord;
use crate::request::slow::body::FarBody;

/// A request that a slow lane is to serve.
#[derive(Debug)]
pub(crate) struct Job {
    /// The lane of its connection.
    pub(crate) home: usize,
    pub(crate) request: Request<Incoming>,
    pub(crate) guest: Guest,
    /// The parts of its record that handlers can read.
    pub(crate) request_record: Option<Box<RequestRecord>>,
    /// Expected time in nanoseconds.
    pub(crate) expected: u64,
    /// Closed when the lane does not want the answer any more.
    pub(crate) answer: oneshot::Sender<Box<Answer>>,
}

/// The place of a job among those that wait: the smallest starts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) since: Tick,
    pub(crate) arrival: u64,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.since, self.arrival).cmp(&(other.since, other.arrival))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What the handler returned, or the panic that ended it.
pub(crate) type Outcome = Result<Result<Response<FarBody>, BoxError>, Box<dyn Any + Send>>;

/// The answer of a slow lane to one request.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// When the handler started.
    pub(crate) started: Tick,
    /// CPU time of the handler in nanoseconds.
    pub(crate) held: u64,
    pub(crate) longest: LongestPoll,
    /// The template that the handler named.
    pub(crate) route: Option<Box<str>>,
    /// Why the limits of its route reject it.
    pub(crate) refused: Option<RequestRefusal>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("held", &self.held).finish_non_exhaustive()
    }
}
