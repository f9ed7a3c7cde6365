//! What a lane knows of each of its connections, and how it tells one to end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::lane::LaneState;
use crate::shared::Phase;

/// How long a closing lane waits for the first request of a connection it has just accepted.
const FRESH_GRACE: Duration = Duration::from_secs(1);

/// How long a client may take to close after we did.
const LAST_WORD: Duration = Duration::from_secs(1);

/// Where a connection is between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing was asked since `since`.
    Idle,
    /// The first byte of an HTTP/1.1 request came at `since`, its header is not complete.
    Header,
    /// Requests are in flight.
    Serving,
    /// Our side is closed at `since`; the client's is not yet.
    Leaving,
}

/// What a lane tells a connection to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End as soon as nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The header did not come in time: end now, with 408 where a request had begun.
    Expire,
}

/// One connection, shared by its I/O, its service and its lane; all on one thread.
#[derive(Debug)]
pub(crate) struct Connection {
    activity: Cell<Activity>,
    since: Cell<Instant>,
    in_flight: Cell<u32>,
    served: Cell<u64>,
    /// A request announced a body, of which some may be unread.
    had_body: Cell<bool>,
    /// The client's side is waited for no longer.
    abandoned: Cell<bool>,
    /// HTTP/2 frames are not requests: bytes alone do not begin a header.
    multiplexed: Cell<bool>,
    order: Cell<Option<Order>>,
    /// An order was given once.
    told: Cell<bool>,
    /// Bytes of replies wait for the client to read.
    unflushed: Cell<bool>,
    /// The client took bytes since the last sweep.
    progressed: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Connection {
    fn new() -> Self {
        Connection {
            activity: Cell::new(Activity::Idle),
            since: Cell::new(Instant::now()),
            in_flight: Cell::new(0),
            served: Cell::new(0),
            had_body: Cell::new(false),
            abandoned: Cell::new(false),
            multiplexed: Cell::new(false),
            order: Cell::new(None),
            told: Cell::new(false),
            unflushed: Cell::new(false),
            progressed: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Bytes came from the client.
    pub(crate) fn received(&self) {
        if self.activity.get() == Activity::Idle && !self.multiplexed.get() {
            self.enter(Activity::Header);
        }
    }

    pub(crate) fn set_multiplexed(&self) {
        self.multiplexed.set(true);
        self.enter(Activity::Idle);
    }

    pub(crate) fn is_multiplexed(&self) -> bool {
        self.multiplexed.get()
    }

    pub(crate) fn begin_request(&self, has_body: bool) {
        self.had_body.set(self.had_body.get() || has_body);
        self.in_flight.set(self.in_flight.get() + 1);
        self.activity.set(Activity::Serving);
    }

    pub(crate) fn end_request(&self) {
        self.served.set(self.served.get() + 1);
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 && self.activity.get() != Activity::Leaving {
            self.enter(Activity::Idle);
        }
    }

    /// Bytes of a reply are to be written.
    pub(crate) fn writing(&self) {
        self.unflushed.set(true);
    }

    /// The client's window took bytes of a reply.
    pub(crate) fn wrote(&self) {
        self.progressed.set(true);
    }

    /// hyper has handed every byte of its replies to the socket.
    pub(crate) fn flushed(&self) {
        self.unflushed.set(false);
    }

    /// Our side is closed. Whether bytes of the client may be unread: closing then resets the
    /// connection, and the reply may be lost with it (RFC 9112 section 9.6).
    pub(crate) fn leave(&self) -> bool {
        let unread = self.had_body.get() || self.activity.get() == Activity::Header;
        self.enter(Activity::Leaving);
        unread
    }

    /// Whether our side is closed, and nothing but the client's is waited for.
    pub(crate) fn is_leaving(&self) -> bool {
        self.activity.get() == Activity::Leaving
    }

    /// Waits for the client's side no longer.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(true);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Requests that are lost if the connection is cut now: those in flight, or the reply whose
    /// end the socket has not taken.
    pub(crate) fn unanswered(&self) -> u64 {
        u64::from(self.in_flight.get().max(u32::from(self.unflushed.get())))
    }

    fn enter(&self, activity: Activity) {
        self.activity.set(activity);
        self.since.set(Instant::now());
    }

    /// Whether a client has begun a request, not finished it, and nothing is being sent to it.
    pub(crate) fn in_header(&self) -> bool {
        self.activity.get() == Activity::Header && !self.unflushed.get()
    }

    /// Gives an order and wakes the connection's task.
    pub(crate) fn tell(&self, order: Order) {
        self.order.set(Some(order));
        if !self.told.replace(true) && self.activity.get() == Activity::Idle {
            // What is due next counts from the order.
            self.since.set(Instant::now());
        }
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Takes an order, or arranges to be woken by the next.
    pub(crate) fn poll_order(&self, cx: &mut Context<'_>) -> Poll<Order> {
        if let Some(order) = self.order.take() {
            return Poll::Ready(order);
        }
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(old) if old.will_wake(cx.waker()) => {}
            _ => *waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    /// What is due at `now`, if anything.
    pub(crate) fn due(&self, lane: &LaneState, now: Instant) -> Option<Due> {
        if self.progressed.take() {
            self.since.set(now);
        }
        let waited = now.saturating_duration_since(self.since.get());
        let fresh = self.served.get() == 0;
        match self.activity.get() {
            Activity::Serving => None,
            Activity::Leaving => (waited > LAST_WORD).then_some(Due::Unheeded),
            // It was told to finish and has nothing to do, but its client keeps it: an HTTP/2
            // client that never answers the ping of a GOAWAY, or one that stopped reading.
            _ if self.told.get() => (waited > lane.timeouts.header).then_some(Due::Unheeded),
            Activity::Header => (waited > lane.timeouts.header).then_some(Due::HeaderTimeout),
            // A connection that asked nothing yet may have its first request under way: closing
            // it at once would lose that request.
            Activity::Idle if lane.phase.get() == Phase::Closing && !self.unflushed.get() => {
                (!fresh || waited > FRESH_GRACE).then_some(Due::Drain)
            }
            Activity::Idle if fresh => {
                (waited > lane.timeouts.header).then_some(Due::HeaderTimeout)
            }
            Activity::Idle => (waited > lane.timeouts.idle).then_some(Due::IdleTimeout),
        }
    }
}

/// Why a connection has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    HeaderTimeout,
    IdleTimeout,
    Drain,
    Unheeded,
}

/// A connection's place in its lane, given up when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    pub(crate) connection: Rc<Connection>,
    lane: Rc<LaneState>,
    key: usize,
}

impl Registration {
    /// Enters a connection that [`Shared::try_open`](crate::shared::Shared::try_open) allowed.
    pub(crate) fn new(lane: Rc<LaneState>) -> Self {
        let connection = Rc::new(Connection::new());
        let key = lane.connections.borrow_mut().insert(Rc::clone(&connection));
        lane.metrics().open.add(1);
        Registration { connection, lane, key }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.lane.metrics().open.sub(1);
        self.lane.shared.close();
        let mut connections = self.lane.connections.borrow_mut();
        connections.remove(self.key);
        if connections.is_empty() {
            self.lane.emptied.notify_one();
        }
    }
}
