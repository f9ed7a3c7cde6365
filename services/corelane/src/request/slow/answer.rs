//! The answer of a slow lane.

use std::any::Any;
use std::fmt;

use http::Response;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::load::tail::LongestPoll;
use crate::metrics::RequestRefusal;
use crate::request::slow::body::FarBody;

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
