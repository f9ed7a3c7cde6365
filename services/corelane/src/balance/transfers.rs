//! A lane's part in a plan: the lane briefly measures its connections' polls and then gives some of
//! the connections away.

use std::cell::Cell;
use std::time::Duration;

use super::mailbox::Mailbox;
use super::policy::{Step, Transfer};
use crate::base::phase::Phase;
use crate::metrics::Moved;
use crate::request::connection::Connection;
use crate::request::lane_state::LaneState;
use crate::request::polls::Polls;

/// Minimum time that a connection stays on a lane, so that its load can be measured and it does not
/// bounce between lanes.
const RESIDENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Transfers(Cell<Option<Transfer>>);

impl Transfers {
    pub(super) fn hear(&self, polls: &Polls, plan: u32, step: Step) {
        match step {
            Step::Observe => {
                self.0.set(None);
                polls.measure(plan);
            }
            // The lane has no measurements for other plans.
            Step::Transfer(transfer) if plan == polls.plan() => self.0.set(Some(transfer)),
            Step::Transfer(_) => {}
            Step::Finish => polls.lower(Polls::PLAN),
        }
    }

    /// The lane that an idle connection should move to and the reason, or `None` if it stays.
    pub(super) fn choose<R>(
        &self,
        lane: &LaneState,
        mailbox: &Mailbox<R>,
        connection: &Connection,
    ) -> Option<(usize, Moved)> {
        let mut transfer = self.0.get()?;
        let serves = lane.phase.get() == Phase::Serving;
        if !serves || !connection.may_move(RESIDENCE) {
            return None;
        }
        let load = load(&lane.polls, connection, transfer.why)?;
        let goes = transfer.take(load);
        self.0.set(Some(transfer));
        if !goes {
            return None;
        }
        mailbox.spend(lane.polls.plan(), load);
        Some((transfer.to, transfer.why))
    }
}

/// The load of a connection in the plan's unit: a share of the lane's time, or seconds per request.
fn load(polls: &Polls, connection: &Connection, why: Moved) -> Option<f64> {
    let time = connection.poll_time.get();
    match why {
        Moved::Saturated => polls.seconds_per_request(time, connection.served()),
        _ => polls.share(time),
    }
}
