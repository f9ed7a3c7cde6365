//! Connections that rest and move at any exact idle, by a seeded chance, and rules that can be
//! broken: what the tests of [`super::tracker`]'s rules need, and no server.

use bytes::Bytes;

use super::Leave;
use crate::connection::Connection;
use crate::lane::LaneState;
use crate::metrics::Moved;
use crate::random::Random;

/// How often connections rest and move without need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chaos {
    /// The same connections do the same for the same seed, as far as clients are the same.
    pub seed: u64,
    /// One exact idle in so many ends with a move to another lane; 0: none.
    pub move_one_in: u64,
    /// One exact idle in so many ends in the lot; 0: none.
    pub park_one_in: u64,
    /// A rule that is not kept.
    pub broken: Option<Rule>,
}

/// What makes a connection exactly idle, and what leaves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The reply's body is dropped.
    ReplyEnded,
    /// The request's body was seen to its end.
    BodySeen,
    /// That it was seen is said of this request, not of the one before.
    Generation,
    /// The socket has all that was written.
    Flushed,
    /// A request was served since the connection came.
    ServedHere,
    /// What hyper read ahead goes along.
    ReadBuffer,
    /// That comes before what the stream read ahead.
    Order,
}

/// The chaos of one lane.
#[derive(Debug)]
pub(crate) struct LaneChaos {
    settings: Chaos,
    random: Random,
}

impl LaneChaos {
    pub(crate) fn new(settings: Chaos, lane: usize) -> Self {
        let random = Random::seeded(settings.seed.wrapping_add(lane as u64));
        LaneChaos { settings, random }
    }

    fn breaks(&self, rule: Rule) -> bool {
        self.settings.broken == Some(rule)
    }

    fn one_in(&self, count: u64) -> bool {
        count > 0 && self.random.next().is_multiple_of(count)
    }

    /// [`Connection::is_idle`], without the rule that is broken.
    fn is_idle(&self, connection: &Connection) -> bool {
        let tracker = &connection.tracker;
        let seen = if self.breaks(Rule::Generation) {
            tracker.is_body_seen_by_anyone()
        } else {
            self.breaks(Rule::BodySeen) || tracker.is_body_seen()
        };
        connection.goes_on()
            && (self.breaks(Rule::ReplyEnded) || connection.has_replied())
            && (self.breaks(Rule::Flushed) || tracker.is_flushed())
            && seen
    }

    /// Where a connection goes that has to wait.
    pub(super) fn ask(&self, connection: &Connection) -> Option<Leave> {
        if !self.is_idle(connection) {
            return None;
        }
        let lanes = connection.lane().shared.lanes.len() as u64;
        let served = connection.has_served_here() || self.breaks(Rule::ServedHere);
        if served && lanes > 1 && self.one_in(self.settings.move_one_in) {
            let others = 1 + self.random.next() % (lanes - 1);
            let lane = (connection.lane().index as u64 + others) % lanes;
            return Some(Leave::Move { lane: lane as usize, why: Moved::Busy });
        }
        // What was read and is whole would wait for ever.
        let waits = connection.tracker.is_blocked();
        (waits && self.one_in(self.settings.park_one_in)).then_some(Leave::Park)
    }

    /// What was read of a connection that leaves: by hyper, then by the stream.
    pub(crate) fn unread(&self, hypers: Bytes, streams: Bytes) -> (Bytes, Bytes) {
        if self.breaks(Rule::ReadBuffer) {
            (Bytes::new(), streams)
        } else if self.breaks(Rule::Order) {
            (streams, hypers)
        } else {
            (hypers, streams)
        }
    }
}

impl LaneState {
    /// The rules are kept where nothing else is said.
    pub(crate) fn unread(&self, hypers: Bytes, streams: Bytes) -> (Bytes, Bytes) {
        match &self.chaos {
            Some(chaos) => chaos.unread(hypers, streams),
            None => (hypers, streams),
        }
    }
}
