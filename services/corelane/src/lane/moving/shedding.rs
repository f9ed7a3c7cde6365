//! A lane's part in a plan: it measures the polls of its connections for a short time, and sheds
//! some.

use std::cell::Cell;
use std::time::Duration;

use super::mailbox::Mailbox;
use super::policy::{Shed, Step};
use crate::base::phase::Phase;
use crate::metrics::Moved;
use crate::request::connection::Connection;
use crate::request::lane_state::LaneState;
use crate::request::polls::Polls;
use crate::transport::resting::Leave;

/// Minimum time of a connection on a lane: its load must be measured first, and it must not move
/// back and forth.
const RESIDENCE: Duration = Duration::from_secs(1);

/// A lane's state of its current plan: the connections to shed, once that step has arrived.
#[derive(Debug, Default)]
pub(super) struct Shedding(Cell<Option<Shed>>);

impl Shedding {
    /// Handles a step of a plan.
    pub(super) fn hear(&self, polls: &Polls, plan: u32, step: Step) {
        match step {
            Step::Observe => {
                self.0.set(None);
                polls.measure(plan);
            }
            // The lane has no measurements for other plans.
            Step::Shed(shed) if plan == polls.plan() => self.0.set(Some(shed)),
            Step::Shed(_) => {}
            Step::Finish => polls.lower(Polls::SHED),
        }
    }

    /// The destination of an idle connection, if it should leave.
    pub(super) fn choose(
        &self,
        lane: &LaneState,
        mailbox: &Mailbox,
        connection: &Connection,
    ) -> Option<Leave> {
        let mut shed = self.0.get()?;
        let serves = lane.phase.get() == Phase::Serving;
        if !serves || !connection.may_move(RESIDENCE) {
            return None;
        }
        let load = load(&lane.polls, connection, shed.why)?;
        let goes = shed.take(load);
        self.0.set(Some(shed));
        if !goes {
            return None;
        }
        mailbox.spend(lane.polls.plan(), load);
        Some(Leave::Move { lane: shed.to, why: shed.why })
    }
}

/// The load of a connection in the unit of the plan: a share of the lane's time, or the seconds of a
/// request.
fn load(polls: &Polls, connection: &Connection, why: Moved) -> Option<f64> {
    let time = connection.poll_time.get();
    match why {
        Moved::Saturated => polls.seconds_per_request(time, connection.served()),
        _ => polls.share(time),
    }
}
