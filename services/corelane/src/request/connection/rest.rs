//! Whether a connection is idle, and the state that it keeps when it parks or moves.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::Duration;

use super::{ClientSide, Connection, Countdown, Orders, Reading, ServedBy};
use crate::request::client::{Client, Introduced};
use crate::request::lane_state::LaneState;

#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) introduced: Introduced,
    /// Time for which the connection has been waiting for its client. `None` until the next sweep
    /// starts to measure it.
    pub(crate) waited: Option<Duration>,
    /// Whether the connection is waiting for the rest of a head rather than for a request.
    pub(crate) in_header: bool,
    /// Time until the connection reaches its maximum age.
    pub(crate) retires_in: Option<Duration>,
    pub(crate) requests: u64,
    pub(crate) had_body: bool,
    pub(crate) last: bool,
    pub(crate) reported: u32,
}

impl History {
    pub(crate) fn lent(introduced: Introduced, requests: u64) -> Self {
        History {
            introduced,
            waited: None,
            in_header: false,
            retires_in: None,
            requests,
            had_body: false,
            last: false,
            reported: 0,
        }
    }
}

impl Connection {
    pub(crate) fn resumed(
        lane: Rc<LaneState>,
        history: History,
        peer: Option<SocketAddr>,
        socket: RawFd,
    ) -> Self {
        let now = lane.clock.get();
        let waited = history.waited.unwrap_or_default();
        let reading = if history.in_header { Reading::Head } else { Reading::Idle };
        let retires = history.retires_in.and_then(|left| now.checked_add(left));
        let client = Client::new(peer, history.introduced, socket);
        let mut resumed = Connection::make(lane, client, retires, None);
        let since = now.checked_sub(waited).unwrap_or(now);
        resumed.reading = Cell::new(reading);
        resumed.countdown = Cell::new(Countdown::Client { since });
        resumed.touched = Cell::new(history.waited.is_none());
        resumed.begun = Cell::new(history.requests);
        resumed.served = Cell::new(history.requests);
        resumed.looks = Cell::new(0);
        resumed.brought = Cell::new(history.requests);
        resumed.had_body = Cell::new(history.had_body);
        resumed.last = Cell::new(history.last);
        resumed.reported = Cell::new(history.reported);
        resumed
    }

    pub(crate) fn history(&self) -> History {
        let now = self.lane.clock.get();
        let waited = now.saturating_duration_since(self.since());
        History {
            introduced: self.client.introduced(),
            waited: (!self.touched.get()).then_some(waited),
            in_header: self.reading.get() == Reading::Head,
            retires_in: self.retires.map(|at| at.saturating_duration_since(now)),
            requests: self.served.get(),
            had_body: self.had_body.get(),
            last: self.last.get(),
            reported: self.reported.get(),
        }
    }

    pub(crate) fn set_guest(&mut self) {
        self.guest = true;
    }

    pub(crate) fn is_guest(&self) -> bool {
        self.guest
    }

    pub(crate) fn lend(&self) {
        self.reading.set(Reading::Lent);
        self.check();
    }

    /// Takes the connection back from a lane that has served this many requests.
    pub(crate) fn take_back(&self, requests: u64, had_body: bool) {
        self.begun.set(self.begun.get() + requests);
        self.served.set(self.served.get() + requests);
        self.had_body.set(self.had_body.get() || had_body);
        self.enter(Reading::Idle);
        self.check();
    }

    /// Whether another HTTP/1.1 request may follow.
    pub(crate) fn goes_on(&self) -> bool {
        self.client_side.get() < ClientSide::Ended && !self.is_ordered()
    }

    /// Whether the connection has served a request on this lane. Only such a connection may move.
    /// Other connections would keep moving, because a connection is not readable in its first poll.
    pub(crate) fn has_served_here(&self) -> bool {
        self.served.get() > self.brought.get()
    }

    /// Whether an idle connection that has been here for at least `residence` may move to another
    /// lane.
    pub(crate) fn may_move(&self, residence: Duration) -> bool {
        let stayed = self.lane.clock.get().saturating_duration_since(self.came);
        self.has_served_here() && stayed >= residence && !self.last.get()
    }

    pub(crate) fn served(&self) -> u64 {
        self.served.get()
    }

    pub(crate) fn is_active(&self) -> bool {
        let touched = self.begun.get() > 0 && self.since() == self.lane.clock.get();
        matches!(self.reading.get(), Reading::Serving | Reading::Body | Reading::Lent) || touched
    }

    /// Records that the socket cannot leave the lane now, which excludes the connection until its
    /// next request.
    pub(crate) fn stay(&self) {
        self.take_park();
        self.brought.set(self.served.get());
    }

    /// Whether the connection should park now if it is idle.
    pub(crate) fn is_to_park(&self) -> bool {
        // Bytes that arrived after the order start a new wait.
        self.take_park() && !self.touched.get()
    }

    fn take_park(&self) -> bool {
        let parks = self.orders.get() == Orders::Park;
        if parks {
            self.orders.set(Orders::None);
        }
        parks
    }

    /// Whether the connection has waited for its client for longer than `after` and may therefore
    /// park.
    pub(crate) fn is_long_idle(&self, after: Duration) -> bool {
        let waits = matches!(self.reading.get(), Reading::Idle | Reading::Head);
        let waited = || self.lane.clock.get().saturating_duration_since(self.since());
        // A connection that has not had a request will soon send one or be closed. A connection
        // that woke up is checked once before it parks again, so that a client cannot evade the
        // deadline with a few bytes.
        let may = self.served.get() > 0 && self.is_on_plain_path() && self.looks.get() > 1;
        waits && may && !self.touched.get() && !self.is_unflushed() && waited() > after
    }

    fn is_on_plain_path(&self) -> bool {
        self.served_by.get() == ServedBy::PlainPath
    }

    /// Orders the connection to park as soon as it is idle, if it may park.
    pub(crate) fn tell_to_park(&self) {
        if self.is_on_plain_path() && self.orders.get() == Orders::None {
            self.orders.set(Orders::Park);
            self.check();
        }
        self.wake();
    }
}
