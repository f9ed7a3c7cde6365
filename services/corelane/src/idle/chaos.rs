//! Parks and moves connections at random points where they are idle, and can disable single rules.
//! For tests of the rules in [`super::tracker`] only.

use bytes::Bytes;

use super::Leave;
use crate::connection::Connection;
use crate::lane::LaneState;
use crate::metrics::Moved;
use crate::random::Random;

/// How often connections park and move without need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chaos {
    /// The same seed selects the same connections, as far as the clients behave the same.
    pub seed: u64,
    /// One in this many idle points ends with a move to another lane; 0 disables moves.
    pub move_one_in: u64,
    /// One in this many idle points ends in the lot; 0 disables parking.
    pub park_one_in: u64,
    /// A rule to ignore.
    pub broken: Option<Rule>,
}

/// The rules that make a connection idle, and the data that moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The body of the reply was dropped.
    ReplyEnded,
    /// The body of the request was read to its end.
    BodySeen,
    /// That it was read applies to this request, not to the previous one.
    Generation,
    /// The socket has all output.
    Flushed,
    /// A request was served since the connection arrived at the lane.
    ServedHere,
    /// hyper's read-ahead is kept.
    ReadBuffer,
    /// hyper's read-ahead precedes the stream's.
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

    /// [`Connection::is_idle`], without the disabled rule.
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

    /// The destination of a connection that waits.
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
        // Complete input that was already read would wait forever.
        let waits = connection.tracker.is_blocked();
        (waits && self.one_in(self.settings.park_one_in)).then_some(Leave::Park)
    }

    /// The unread input of a connection that leaves: hyper's first, then the stream's.
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
    /// Without chaos all rules apply.
    pub(crate) fn unread(&self, hypers: Bytes, streams: Bytes) -> (Bytes, Bytes) {
        match &self.chaos {
            Some(chaos) => chaos.unread(hypers, streams),
            None => (hypers, streams),
        }
    }
}
