//! Moves a lane's connections to other lanes.

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

/// Connections do not move during a drain, because lanes are shutting down.
pub(super) fn is_open(lanes: &[Arc<LaneShared>], lifecycle: &Lifecycle) -> bool {
    lanes.len() > 1 && lifecycle.phase() == Phase::Serving
}

pub(crate) trait Movable {
    /// Takes the connection off its lane, before it moves to lane `to`. Call this only on the old
    /// lane's thread.
    fn depart(&mut self, to: usize);

    /// Adds the connection to its new lane. Call this only on that lane's thread.
    fn arrive(&mut self, lane: usize);
}

#[derive(Debug)]
pub(crate) struct Moves<R> {
    lane: Rc<LaneState>,
    lifecycle: Arc<Lifecycle>,
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

    pub(crate) fn mailbox(&self) -> &Mailbox<R> {
        &self.mailboxes[self.lane.index]
    }

    pub(crate) fn sweep(&self, active: usize) {
        self.recent_load.sweep(&self.lane, active);
    }

    /// The lane that an idle connection should move to after a poll, and the reason.
    pub(crate) fn choose(&self, connection: &Connection) -> Option<(usize, Moved)> {
        if !self.lane.polls.are_measured() {
            return None;
        }
        self.transfers.choose(&self.lane, self.mailbox(), connection)
    }

    /// The lane that should resume a connection that has woken up, or `None` for this lane.
    pub(crate) fn choose_lane(&self) -> Option<usize> {
        if !is_open(self.lane.group(), &self.lifecycle) {
            return None;
        }
        self.recent_load.choose_lane(&self.lane, &self.mailboxes)
    }

    /// Sends a connection to another lane, or returns it if it must stay.
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

    pub(crate) fn receive(&self) -> Option<R> {
        let mut connection = self.mailbox().take()?;
        self.arrive(&mut connection);
        Some(connection)
    }

    fn arrive(&self, connection: &mut R) {
        connection.arrive(self.lane.index);
        self.lane.metrics().arrive();
    }

    pub(crate) async fn arrived(&self) {
        self.mailbox().wake.notified().await;
        if let Some((plan, step)) = self.mailbox().step() {
            self.transfers.hear(&self.lane.polls, plan, step);
        }
    }
}
