//! A lane's part in a plan: it times its connections' polls for a moment, and lets some go.
//!
//! Nothing of it is in the way of a request but the lane's [`Attention`], which is low while there
//! is no plan.

use std::cell::Cell;
use std::time::Duration;

use super::policy::{Shed, Step};
use super::{Attention, Leave};
use crate::clock::Tick;
use crate::connection::Connection;
use crate::lane::LaneState;
use crate::metrics::Moved;

/// How long a connection stays on a lane at least: what it does there is to be seen first, and it
/// is not to go to and fro.
const RESIDENCE: Duration = Duration::from_secs(1);

/// What a lane knows of the plan that it has a part in.
#[derive(Debug)]
pub(crate) struct Shedding {
    plan: Cell<u32>,
    /// What is to go, once that is told.
    shed: Cell<Option<Shed>>,
    /// When it began to observe.
    begun: Cell<Tick>,
    /// When the poll began that is timed, if one is.
    polled: Cell<Option<Tick>>,
}

/// What a connection has taken since its lane observes it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    plan: u32,
    nanos: u32,
    requests: u32,
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

    /// Takes a step of a plan.
    pub(super) fn hear(&self, attention: &Attention, plan: u32, step: Step) {
        match step {
            Step::Observe => {
                self.plan.set(plan);
                self.shed.set(None);
                self.begun.set(Tick::now());
                self.polled.set(None);
                attention.raise(Attention::SHED);
            }
            // Of a plan that it has not observed for, it knows nothing.
            Step::Shed(shed) if plan == self.plan.get() => self.shed.set(Some(shed)),
            Step::Shed(_) => {}
            Step::Finish => attention.lower(Attention::SHED),
        }
    }

    /// A connection is about to be polled.
    pub(super) fn begin_poll(&self) {
        self.polled.set(Some(Tick::now()));
    }

    /// It was polled, and has to wait.
    pub(super) fn end_poll(&self, connection: &Connection) {
        let Some(begun) = self.polled.take() else { return };
        let took = u32::try_from(Tick::now().since(begun)).unwrap_or(u32::MAX);
        let before = connection.taken.get();
        let served = connection.served() as u32;
        let plan = self.plan.get();
        let before = match before {
            before if before.plan == plan => before,
            _ => Taken { plan, nanos: 0, requests: served.wrapping_sub(1) },
        };
        connection.taken.set(Taken { nanos: before.nanos.saturating_add(took), ..before });
    }

    /// Where a connection goes that is idle, if it is to go.
    pub(super) fn choose(&self, lane: &LaneState, connection: &Connection) -> Option<Leave> {
        let mut shed = self.shed.get()?;
        if !connection.may_move(RESIDENCE) {
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

    /// What a connection takes, in the measure of a plan: a share of the lane's time, or the seconds
    /// of a request.
    fn takes(&self, connection: &Connection, why: Moved) -> Option<f64> {
        let taken = connection.taken.get();
        if taken.plan != self.plan.get() {
            return None;
        }
        let nanos = f64::from(taken.nanos);
        match why {
            Moved::Saturated => {
                let requests = (connection.served() as u32).wrapping_sub(taken.requests);
                Some(nanos / f64::from(requests.max(1)) / 1e9)
            }
            _ => Some(nanos / Tick::now().since(self.begun.get()).max(1) as f64),
        }
    }
}
