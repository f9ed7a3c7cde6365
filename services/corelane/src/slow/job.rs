//! A request for a slow lane.

use std::cmp::Ordering;

use http::Request;
use tokio::sync::oneshot;

use crate::base::clock::Tick;
use crate::request::body::Incoming;
use crate::request::offload::FarAnswer;
use crate::request::record::RequestRecord;
use crate::slow::current::FarRequest;

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) home: usize,
    pub(crate) request: Request<Incoming>,
    pub(crate) current: FarRequest,
    pub(crate) record: Option<Box<RequestRecord>>,
    pub(crate) expected: u64,
    /// Closed when the lane no longer wants the result.
    pub(crate) answer: oneshot::Sender<Box<FarAnswer>>,
}

/// A job's place among the waiting jobs. The job with the smallest place starts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobPlace {
    pub(crate) since: Tick,
    pub(crate) arrival: u64,
}

impl Ord for JobPlace {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.since, self.arrival).cmp(&(other.since, other.arrival))
    }
}

impl PartialOrd for JobPlace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
