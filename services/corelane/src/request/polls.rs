//! Reasons to look at a lane's connections after a poll, and the measurement of their polls.
//!
//! While there is no reason, this costs a poll one comparison.

use std::cell::Cell;

use crate::base::clock::Tick;

/// The polls of a lane's connections.
#[derive(Debug)]
pub(crate) struct Polls {
    /// The reasons to look at them, one bit each.
    reasons: Cell<u8>,
    /// The plan to move connections for which they are measured, and when that began.
    plan: Cell<u32>,
    begun: Cell<Tick>,
    /// The start of the current poll, and how many requests its connection had served.
    current: Cell<Option<(Tick, u64)>>,
}

/// The time of a connection's polls since its lane began to measure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollTime {
    plan: u32,
    nanos: u32,
    /// Requests that it had served before.
    served_before: u64,
}

impl Polls {
    /// Connections have an order to park.
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

    /// Whether there is a reason to look at connections that wait.
    pub(crate) fn is_raised(&self) -> bool {
        self.reasons.get() != 0
    }

    /// Whether polls are measured.
    pub(crate) fn are_measured(&self) -> bool {
        self.reasons.get() & Polls::PLAN != 0
    }

    /// Starts to measure for this plan.
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

    /// A connection that has served so many requests is about to be polled.
    pub(crate) fn begin(&self, served: u64) {
        self.current.set(Some((Tick::now(), served)));
    }

    /// A connection was polled and waits. Adds the time of the poll to `total`.
    pub(crate) fn end(&self, total: &Cell<PollTime>) {
        let Some((begun, served_before)) = self.current.take() else { return };
        let took = u32::try_from(Tick::now().since(begun)).unwrap_or(u32::MAX);
        let (plan, before) = (self.plan.get(), total.get());
        let known = before.plan == plan;
        let before = if known { before } else { PollTime { plan, nanos: 0, served_before } };
        total.set(PollTime { nanos: before.nanos.saturating_add(took), ..before });
    }

    /// The seconds of a request of a connection that has served so many. `None`: not measured.
    pub(crate) fn seconds_per_request(&self, time: PollTime, served: u64) -> Option<f64> {
        let requests = served.saturating_sub(time.served_before).max(1);
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / 1e9 / requests as f64)
    }

    /// The share of the lane's time that a connection took. `None`: not measured.
    pub(crate) fn share(&self, time: PollTime) -> Option<f64> {
        let measured = || Tick::now().since(self.begun.get()).max(1) as f64;
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / measured())
    }
}
