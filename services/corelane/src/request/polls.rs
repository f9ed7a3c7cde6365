//! Decides whether a lane's connections need a check after a poll, and measures their polls.
//!
//! Without a reason to check, a poll costs one comparison.

use std::cell::Cell;

use crate::base::clock::Tick;

/// Polls of a lane's connections.
#[derive(Debug)]
pub(crate) struct Polls {
    /// Reasons to check the connections, one bit each.
    reasons: Cell<u8>,
    /// The plan to move connections that the measurement is for.
    plan: Cell<u32>,
    begun: Cell<Tick>,
    /// Start of the current poll, and number of requests that its connection had served before.
    current: Cell<Option<(Tick, u64)>>,
}

/// Time that polls of a connection took since its lane began to measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollTime {
    plan: u32,
    nanos: u32,
    /// Requests that the connection had served before the measurement.
    served_before: u64,
}

impl Polls {
    /// Connections are ordered to park.
    pub(crate) const PARK: u8 = 1;
    /// The lane takes part in a plan, so polls are measured.
    pub(crate) const PLAN: u8 = 2;
    /// The lane has borrowed connections.
    pub(crate) const GUESTS: u8 = 4;
    /// Chaos is enabled.
    #[cfg(feature = "chaos")]
    pub(crate) const CHAOS: u8 = 128;

    pub(crate) fn new() -> Self {
        Polls {
            reasons: Cell::new(0),
            plan: Cell::new(0),
            begun: Cell::new(Tick::now()),
            current: Cell::new(None),
        }
    }

    pub(crate) fn raise(&self, reason: u8) {
        self.reasons.set(self.reasons.get() | reason);
    }

    pub(crate) fn lower(&self, reason: u8) {
        self.reasons.set(self.reasons.get() & !reason);
    }

    /// Whether waiting connections need a check.
    pub(crate) fn is_raised(&self) -> bool {
        self.reasons.get() != 0
    }

    /// Whether polls are measured.
    pub(crate) fn are_measured(&self) -> bool {
        self.reasons.get() & Polls::PLAN != 0
    }

    /// Starts a measurement for this plan.
    pub(crate) fn measure(&self, plan: u32) {
        self.plan.set(plan);
        self.begun.set(Tick::now());
        self.current.set(None);
        self.raise(Polls::PLAN);
    }

    /// The plan of the last measurement.
    pub(crate) fn plan(&self) -> u32 {
        self.plan.get()
    }

    /// Begins a poll of a connection that has served this many requests.
    pub(crate) fn begin(&self, served: u64) {
        self.current.set(Some((Tick::now(), served)));
    }

    /// Ends a poll after which the connection waits. Adds the time of the poll to `total`.
    pub(crate) fn end(&self, total: &Cell<PollTime>) {
        let Some((begun, served_before)) = self.current.take() else { return };
        let took = u32::try_from(Tick::now().since(begun)).unwrap_or(u32::MAX);
        let (plan, before) = (self.plan.get(), total.get());
        let known = before.plan == plan;
        let before = if known { before } else { PollTime { plan, nanos: 0, served_before } };
        total.set(PollTime { nanos: before.nanos.saturating_add(took), ..before });
    }

    /// Seconds per request of a connection that has served this many requests; `None` if not
    /// measured.
    pub(crate) fn seconds_per_request(&self, time: PollTime, served: u64) -> Option<f64> {
        let requests = served.saturating_sub(time.served_before).max(1);
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / 1e9 / requests as f64)
    }

    /// The share of the lane's time that a connection took; `None` if not measured.
    pub(crate) fn share(&self, time: PollTime) -> Option<f64> {
        let measured = || Tick::now().since(self.begun.get()).max(1) as f64;
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / measured())
    }
}
