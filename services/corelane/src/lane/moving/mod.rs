//! Moves connections between lanes.
//!
//! | part | does |
//! |---|---|
//! | [`mailbox`] | connections in transit to a lane |
//! | [`wake`] | which lane serves a connection that wakes |
//! | [`mover`], [`policy`] | when connections in use change lanes, and how many |
//! | [`shedding`] | which of its connections a lane lets go |

pub(crate) mod mailbox;
pub(crate) mod mover;
mod policy;
mod shedding;
mod wake;

use std::rc::Rc;
use std::sync::Arc;

use tokio::task::yield_now;

use self::mailbox::{IN_A_TURN, Mailbox};
use self::shedding::Shedding;
use self::wake::RecentLoad;
use crate::base::phase::{Lifecycle, Phase};
use crate::load::lane::LaneShared;
use crate::metrics::Moved;
use crate::request::connection::Connection;
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::transport::connections::Moves;
use crate::transport::host::LaneService;
use crate::transport::plain::resume;
use crate::transport::resting::{Leave, Resting};

/// Whether connections may move. They do not move in a drain, because lanes end.
fn is_open(lanes: &[Arc<LaneShared>], lifecycle: &Lifecycle) -> bool {
    lanes.len() > 1 && lifecycle.phase() == Phase::Serving
}

/// The moves of a lane's connections.
#[derive(Debug)]
pub(crate) struct LaneMoves {
    lane: Rc<LaneState>,
    lifecycle: Arc<Lifecycle>,
    /// Those of all lanes.
    mailboxes: Arc<[Mailbox]>,
    recent_load: RecentLoad,
    shedding: Shedding,
}

impl LaneMoves {
    pub(crate) fn new(
        lane: &Rc<LaneState>,
        lifecycle: Arc<Lifecycle>,
        mailboxes: Arc<[Mailbox]>,
    ) -> Self {
        LaneMoves {
            lane: Rc::clone(lane),
            lifecycle,
            mailboxes,
            recent_load: RecentLoad::new(),
            shedding: Shedding::default(),
        }
    }

    /// The lane's own mailbox.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailboxes[self.lane.index]
    }

    /// Records a sweep that found `active` connections in use.
    pub(crate) fn sweep(&self, active: usize) {
        self.recent_load.sweep(&self.lane, active);
    }
}

impl Moves for LaneMoves {
    fn choose(&self, connection: &Connection) -> Option<Leave> {
        if !self.lane.polls.are_measured() {
            return None;
        }
        self.shedding.choose(&self.lane, self.mailbox(), connection)
    }

    fn choose_lane(&self) -> Option<usize> {
        if !is_open(self.lane.group(), &self.lifecycle) {
            return None;
        }
        self.recent_load.choose_lane(&self.lane, &self.mailboxes)
    }

    fn depart(&self, mut resting: Resting, to: usize, why: Moved) -> Result<(), Resting> {
        if !is_open(self.lane.group(), &self.lifecycle) {
            return Err(resting);
        }
        self.lane.metrics().depart(why);
        resting.guard.depart(to);
        self.mailboxes[to].offer(resting).map_err(|mut resting| {
            resting.guard.depart(self.lane.index);
            arrive(&self.lane, &mut resting);
            resting
        })
    }
}

/// Receives connections from other lanes and steps of plans while the lane runs.
pub(crate) async fn run<S: HttpService>(host: Rc<LaneService<S>>, moves: Rc<LaneMoves>) {
    let lane = &host.lane;
    let mailbox = moves.mailbox();
    loop {
        mailbox.wake.notified().await;
        if let Some((plan, step)) = mailbox.step() {
            moves.shedding.hear(&lane.polls, plan, step);
        }
        let mut received = 0;
        while let Some(mut resting) = mailbox.take() {
            arrive(lane, &mut resting);
            resume(&host, resting, None);
            received += 1;
            if received % IN_A_TURN == 0 {
                yield_now().await;
            }
        }
    }
}

/// Counts a connection that has arrived at a lane.
fn arrive(lane: &LaneState, resting: &mut Resting) {
    resting.guard.arrive(lane.index);
    lane.metrics().arrive();
}
