//! Decides whether a lane's connections need a check after a poll, and measures their polls.
//!
//! Without a reason to check, a poll costs one comparison.

use std::cell::Cell;

use crate::base::clock::Tick;

#[derive(Debug)]
pub(crate) struct Polls {
    reasons: Cell<u8>,
    plan: Cell<u32>,
    begun: Cell<Tick>,
    /// Start of the current poll, and the number of requests that its connection had served before
    /// it.
    current: Cell<Option<(Tick, u64)>>,
}

/// Poll time of a connection since its lane began to measure it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollTime {
    plan: u32,
    nanos: u32,
    /// Requests that the connection had served before the measurement.
    served_before: u64,
}

impl Polls {
    pub(crate) const PARK: u8 = 1;
    /// The lane takes part in a plan, so polls are measured.
    pub(crate) const PLAN: u8 = 2;
    pub(crate) const GUESTS: u8 = 4;
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

    pub(crate) fn is_raised(&self) -> bool {
        self.reasons.get() != 0
    }

    pub(crate) fn are_measured(&self) -> bool {
        self.reasons.get() & Polls::PLAN != 0
    }

    pub(crate) fn measure(&self, plan: u32) {
        self.plan.set(plan);
        self.begun.set(Tick::now());
        self.current.set(None);
        self.raise(Polls::PLAN);
    }

    pub(crate) fn plan(&self) -> u32 {
        self.plan.get()
    }

    pub(crate) fn begin(&self, served: u64) {
        self.current.set(Some((Tick::now(), served)));
    }

    pub(crate) fn end(&self, total: &Cell<PollTime>) {
        let Some((begun, served_before)) = self.current.take() else { return };
        let took = u32::try_from(Tick::now().since(begun)).unwrap_or(u32::MAX);
        let (plan, before) = (self.plan.get(), total.get());
        let known = before.plan == plan;
        let before = if known { before } else { PollTime { plan, nanos: 0, served_before } };
        total.set(PollTime { nanos: before.nanos.saturating_add(took), ..before });
    }

    /// `None` if the connection was not measured.
    pub(crate) fn seconds_per_request(&self, time: PollTime, served: u64) -> Option<f64> {
        let requests = served.saturating_sub(time.served_before).max(1);
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / 1e9 / requests as f64)
    }

    /// The connection's share of the lane's time, or `None` if it was not measured.
    pub(crate) fn share(&self, time: PollTime) -> Option<f64> {
        let measured = || Tick::now().since(self.begun.get()).max(1) as f64;
        (time.plan == self.plan.get()).then(|| f64::from(time.nanos) / measured())
    }
}
