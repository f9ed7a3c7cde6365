//! Marks rejected requests that a proxy may send to another replica.
//!
//! If a proxy retried every rejected request, it would multiply the load on a fleet that is already
//! overloaded. Proxies cannot see the overload, but each replica knows how much of its load it
//! rejects. It therefore marks at most one rejected request per [`COST`] finished requests. If a
//! fleet finishes `f` requests, at most `f / COST` of them are retries. The load therefore grows to
//! at most `COST / (COST - 1)` = 1.2 times the requests that clients sent. Each lane also allows a
//! burst after a quiet period.

use std::cell::Cell;

use http::{HeaderName, HeaderValue};

use crate::message::problem::Problem;

/// Marks responses to requests that never reached the service, so that another replica may serve
/// them regardless of their method.
pub(crate) const NOT_STARTED: HeaderName = HeaderName::from_static("corelane-not-started");

const COST: u64 = 6;

const BURST: u64 = 64;

#[derive(Debug)]
pub(crate) struct RetryBudget {
    saved: Cell<u64>,
    /// The lane's finished requests when `saved` was last updated.
    finished: Cell<u64>,
}

impl RetryBudget {
    pub(crate) fn new() -> Self {
        RetryBudget { saved: Cell::new(BURST * COST), finished: Cell::new(0) }
    }

    /// Marks the response to a request that was not started, while the budget lasts. `finished` is
    /// the lane's number of finished requests.
    pub(crate) fn mark(&self, problem: Problem, finished: u64) -> Problem {
        if self.takes(finished) {
            problem.header(NOT_STARTED, HeaderValue::from_static("1"))
        } else {
            problem
        }
    }

    fn takes(&self, finished: u64) -> bool {
        let earned = finished.saturating_sub(self.finished.replace(finished));
        let saved = self.saved.get().saturating_add(earned).min(BURST * COST);
        let rest = saved.checked_sub(COST);
        self.saved.set(rest.unwrap_or(saved));
        rest.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_finished_request_in_six_may_be_marked() {
        let budget = RetryBudget::new();
        let marked = (1..=6_000 + BURST).filter(|finished| budget.takes(*finished)).count();
        assert_eq!(marked as u64, (6_000 + BURST) / COST + BURST);
    }

    #[test]
    fn a_quiet_time_saves_no_more_than_a_burst() {
        let budget = RetryBudget::new();
        assert_eq!((0..1_000).filter(|_| budget.takes(1_000_000)).count() as u64, BURST);
    }
}
