//! Moves of a lane's connections to other lanes.

use std::rc::Rc;
use std::sync::Arc;

use super::mailbox::Mailbox;
use super::transfers::Transfers;
use super::wake::RecentLoad;
use crate::base::phase::{Lifecycle, Phase};
use crate::load::lane::LaneShared;
use crate::metrics::Moved;
use crate::request::connection::Connection;
use crate::request::lane_state::LaneState;

/// Whether connections may move. They do not move in a drain, because lanes are ending.
pub(super) fn is_open(lanes: &[Arc<LaneShared>], lifecycle: &Lifecycle) -> bool {
    lanes.len() > 1 && lifecycle.phase() == Phase::Serving
}

/// A connection that can move from lane to lane.
pub(crate) trait Movable {
    /// Leaves its lane for another. Only the thread of the old lane may call this.
    fn depart(&mut self, to: usize);

    /// Arrives at a lane. Only the thread of that lane may call this.
    fn arrive(&mut self, lane: usize);
}

/// The moves of a lane's connections.
#[derive(Debug)]
pub(crate) struct Moves<R> {
    lane: Rc<LaneState>,
    lifecycle: Arc<Lifecycle>,
    /// The mailboxes of all lanes.
    mailboxes: Arc<[Mailbox<R>]>,
    recent_load: RecentLoad,
    transfers: Transfers,
}

impl<R: Movable> Moves<R> {
    pub(crate) fn new(
        lane: &Rc<LaneState>,
        lifecycle: Arc<Lifecycle>,
        mailboxes: Arc<[Mailbox<R>]>,
    ) -> Self {
        Moves {
            lane: Rc::clone(lane),
            lifecycle,
            mailboxes,
            recent_load: RecentLoad::new(),
            transfers: Transfers::default(),
        }
    }

    /// The lane's own mailbox.
    pub(crate) fn mailbox(&self) -> &Mailbox<R> {
        &self.mailboxes[self.lane.index]
    }

    /// Records a sweep that found `active` connections in use.
    pub(crate) fn sweep(&self, active: usize) {
        self.recent_load.sweep(&self.lane, active);
    }

    /// Where an idle connection that was just polled should go, and why.
    pub(crate) fn choose(&self, connection: &Connection) -> Option<(usize, Moved)> {
        if !self.lane.polls.are_measured() {
            return None;
        }
        self.transfers.choose(&self.lane, self.mailbox(), connection)
    }

    /// The lane that should resume a connection that wakes; `None` for this lane.
    pub(crate) fn choose_lane(&self) -> Option<usize> {
        if !is_open(self.lane.group(), &self.lifecycle) {
            return None;
        }
        self.recent_load.choose_lane(&self.lane, &self.mailboxes)
    }

    /// Sends a connection to another lane, or returns it if it has to stay.
    pub(crate) fn depart(&self, mut connection: R, to: usize, why: Moved) -> Result<(), R> {
        if !is_open(self.lane.group(), &self.lifecycle) {
            return Err(connection);
        }
        self.lane.metrics().depart(why);
        connection.depart(to);
        self.mailboxes[to].offer(connection).map_err(|mut connection| {
            connection.depart(self.lane.index);
            self.arrive(&mut connection);
            connection
        })
    }

    /// The next connection that arrived from another lane.
    pub(crate) fn receive(&self) -> Option<R> {
        let mut connection = self.mailbox().take()?;
        self.arrive(&mut connection);
        Some(connection)
    }

    /// Counts a connection that has arrived at this lane.
    fn arrive(&self, connection: &mut R) {
        connection.arrive(self.lane.index);
        self.lane.metrics().arrive();
    }

    /// Waits until there may be a connection to [receive](Self::receive), and does the next step of a plan.
    pub(crate) async fn arrived(&self) {
        self.mailbox().wake.notified().await;
        if let Some((plan, step)) = self.mailbox().step() {
            self.transfers.hear(&self.lane.polls, plan, step);
        }
    }
}
