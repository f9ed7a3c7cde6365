//! A lane's part in a plan: it measures the polls of its connections for a short time, and sheds
//! some.
//!
//! Outside plans this costs a request nothing except the check of [`Attention`].

use std::cell::Cell;
use std::time::Duration;

use super::policy::{Shed, Step};
use super::{Attention, Leave};
use crate::clock::Tick;
use crate::connection::Connection;
use crate::lane::LaneState;
use crate::metrics::Moved;
use crate::phase::Phase;

/// Minimum time of a connection on a lane: its load must be measured first, and it must not move
/// back and forth.
const RESIDENCE: Duration = Duration::from_secs(1);

/// A lane's state of its current plan.
#[derive(Debug)]
pub(crate) struct Shedding {
    plan: Cell<u32>,
    /// The connections to shed, once that step has arrived.
    shed: Cell<Option<Shed>>,
    /// When the observation started.
    begun: Cell<Tick>,
    /// The start of the poll that is being timed, and how many requests its connection had served.
    polled: Cell<Option<(Tick, u64)>>,
}

/// The load of a connection since the observation started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    plan: u32,
    nanos: u32,
    /// Requests that it had served before.
    carried: u64,
}

impl Shedding {
    pub(crate) fn new() -> Self {
        Shedding {
            plan: Cell::new(0),
            shed: Cell::new(None),
            begun: Cell::new(Tick::now()),
            polled: Cell::new(None),
        }
    }

    /// Handles a step of a plan.
    pub(super) fn hear(&self, attention: &Attention, plan: u32, step: Step) {
        match step {
            Step::Observe => {
                self.plan.set(plan);
                self.shed.set(None);
                self.begun.set(Tick::now());
                self.polled.set(None);
                attention.raise(Attention::SHED);
            }
            // The lane has no measurements for other plans.
            Step::Shed(shed) if plan == self.plan.get() => self.shed.set(Some(shed)),
            Step::Shed(_) => {}
            Step::Finish => attention.lower(Attention::SHED),
        }
    }

    /// A connection is about to be polled.
    pub(super) fn begin_poll(&self, connection: &Connection) {
        self.polled.set(Some((Tick::now(), connection.served())));
    }

    /// A connection was polled and waits.
    pub(super) fn end_poll(&self, connection: &Connection) {
        let Some((begun, carried)) = self.polled.take() else { return };
        let took = u32::try_from(Tick::now().since(begun)).unwrap_or(u32::MAX);
        let (plan, before) = (self.plan.get(), connection.taken.get());
        let known = before.plan == plan;
        let before = if known { before } else { Taken { plan, nanos: 0, carried } };
        connection.taken.set(Taken { nanos: before.nanos.saturating_add(took), ..before });
    }

    /// The destination of an idle connection, if it should leave.
    pub(super) fn choose(&self, lane: &LaneState, connection: &Connection) -> Option<Leave> {
        let mut shed = self.shed.get()?;
        let serves = lane.phase.get() == Phase::Serving;
        if !serves || !connection.may_move(RESIDENCE) {
            return None;
        }
        let takes = self.takes(connection, shed.why)?;
        let goes = shed.take(takes);
        self.shed.set(Some(shed));
        if !goes {
            return None;
        }
        lane.shared().mailbox.spend(self.plan.get(), takes);
        Some(Leave::Move { lane: shed.to, why: shed.why })
    }

    /// The load of a connection in the unit of the plan: a share of the lane's time, or the seconds
    /// of a request.
    fn takes(&self, connection: &Connection, why: Moved) -> Option<f64> {
        let taken = connection.taken.get();
        if taken.plan != self.plan.get() {
            return None;
        }
        let nanos = f64::from(taken.nanos);
        match why {
            Moved::Saturated => {
                let requests = connection.served().saturating_sub(taken.carried).max(1);
                Some(nanos / 1e9 / requests as f64)
            }
            _ => Some(nanos / Tick::now().since(self.begun.get()).max(1) as f64),
        }
    }
}
