//! Moves and parks connections at random from a seed, and can break rules on purpose. Only for
//! tests.

use bytes::Bytes;

use crate::base::random::Random;
use crate::metrics::Moved;
use crate::request::connection::Connection;
use crate::transport::resting::Leave;

/// Settings for parking and moving connections more often than necessary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chaos {
    /// The same seed selects the same connections if clients behave the same.
    pub seed: u64,
    /// One in this many waits ends with a move to another lane. 0 disables moves.
    pub move_one_in: u64,
    /// One in this many waits ends in the parking lot. 0 disables parking.
    pub park_one_in: u64,
    /// Whether lanes always lend their connections, as if a handler were blocking the lanes.
    pub lend: bool,
    /// A rule to break.
    pub broken: Option<Rule>,
}

/// Rules for a connection that leaves its lane, which a test may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The connection has served a request since it arrived.
    ServedHere,
    /// A partially read head moves with its connection.
    Unread,
}

#[derive(Debug)]
pub(crate) struct Choices {
    settings: Chaos,
    random: Random,
    lane: usize,
    lanes: usize,
}

impl Choices {
    pub(crate) fn new(settings: Chaos, lane: usize, lanes: usize) -> Self {
        let random = Random::seeded(settings.seed.wrapping_add(lane as u64));
        Choices { settings, random, lane, lanes }
    }

    fn breaks(&self, rule: Rule) -> bool {
        self.settings.broken == Some(rule)
    }

    fn one_in(&self, count: u64) -> bool {
        count > 0 && self.random.next().is_multiple_of(count)
    }

    pub(crate) fn choose(&self, connection: &Connection) -> Option<Leave> {
        let lanes = self.lanes as u64;
        let served = connection.has_served_here() || self.breaks(Rule::ServedHere);
        if served && lanes > 1 && self.one_in(self.settings.move_one_in) {
            let others = 1 + self.random.next() % (lanes - 1);
            let lane = (self.lane as u64 + others) % lanes;
            return Some(Leave::Move { lane: lane as usize, why: Moved::Busy });
        }
        self.one_in(self.settings.park_one_in).then_some(Leave::Park)
    }

    /// The unread input of a leaving connection, or no input if chaos breaks that rule.
    pub(crate) fn unread(&self, unread: Bytes) -> Bytes {
        if self.breaks(Rule::Unread) { Bytes::new() } else { unread }
    }
}
