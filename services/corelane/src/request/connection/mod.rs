//! State of a lane's connections, and the orders that end them.
//!
//! To keep this state, a request does not have to read the clock: events set flags, and the next
//! sweep records its own time for them. A deadline may therefore start up to one sweep late, but
//! never early.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use http::HeaderMap;

use crate::base::clock::Tick;
use crate::base::phase::Phase;
use crate::request::body_watch::Bodies;
use crate::request::client::{Client, ConnectionInfo, Protocol};
use crate::request::lane_state::LaneState;
use crate::request::polls::PollTime;
use crate::request::unsent::Unsent;

mod due;
mod leaving;
mod requests;
mod rest;
mod state;

use due::{Countdown, retire_after};
pub(crate) use due::{Due, HangsOn, Wait, order_for};
pub(crate) use leaving::Closing;
use leaving::Upgrades;
use requests::Unwritten;
pub(crate) use rest::History;
use state::{ClientSide, Orders, Reading, Writing};
pub(crate) use state::{Order, ServedBy};

#[derive(Debug)]
pub(crate) struct Connection {
    lane: Rc<LaneState>,
    pub(crate) client: Client,
    served_by: Cell<ServedBy>,
    reading: Cell<Reading>,
    client_side: Cell<ClientSide>,
    writing: Cell<Writing>,
    orders: Cell<Orders>,
    countdown: Cell<Countdown>,
    touched: Cell<bool>,
    /// Bytes that the socket has accepted since the last sweep.
    accepted_bytes: Cell<u64>,
    /// Number of sweeps since the connection was resumed, or a higher number if it was never
    /// parked.
    looks: Cell<u8>,
    /// Number of requests that have begun, and number of requests that have ended. The remaining
    /// requests are in flight: their responses are not ready or not completely written.
    begun: Cell<u64>,
    served: Cell<u64>,
    /// Requests finished before the connection moved to this lane.
    brought: Cell<u64>,
    had_body: Cell<bool>,
    last: Cell<bool>,
    /// Whether the client half-closed before hyper had read all input.
    cut_off: Cell<bool>,
    /// Whether hyper has not yet polled the future of the last request.
    unpolled: Cell<bool>,
    guest: bool,
    came: Instant,
    /// The time at which the connection reaches its maximum age.
    retires: Option<Instant>,
    /// Time of the accept, until the first request takes it.
    accepted: Cell<Option<Tick>>,
    /// Poll time of the connection while its lane is measuring it.
    pub(crate) poll_time: Cell<PollTime>,
    turn: Cell<u32>,
    reported: Cell<u32>,
    pub(crate) bodies: Bodies,
    /// Response bytes that hyper holds. Created when hyper takes over.
    unsent: OnceCell<Rc<Unsent>>,
    waker: RefCell<Option<Waker>>,
    /// The last finished request, until its response is written.
    unwritten: RefCell<Option<Unwritten>>,
    /// Set by the connection's first upgrade.
    upgrades: OnceCell<Box<Upgrades>>,
}

impl Connection {
    /// `chance` is a random number from 0 to 1.
    pub(crate) fn accepted(lane: Rc<LaneState>, client: Client, chance: f64) -> Self {
        let age = lane.timeouts.connection_age;
        let after = |age| lane.clock.get().checked_add(retire_after(age, chance));
        let retires = age.and_then(after);
        Connection::make(lane, client, retires, Some(Tick::now()))
    }

    fn make(
        lane: Rc<LaneState>,
        client: Client,
        retires: Option<Instant>,
        accepted: Option<Tick>,
    ) -> Self {
        let now = lane.clock.get();
        Connection {
            lane,
            client,
            served_by: Cell::new(ServedBy::Opening),
            reading: Cell::new(Reading::Idle),
            client_side: Cell::new(ClientSide::Open),
            writing: Cell::new(Writing::Idle),
            orders: Cell::new(Orders::None),
            countdown: Cell::new(Countdown::Client { since: now }),
            touched: Cell::new(true),
            accepted_bytes: Cell::new(0),
            looks: Cell::new(1),
            begun: Cell::new(0),
            served: Cell::new(0),
            brought: Cell::new(0),
            had_body: Cell::new(false),
            last: Cell::new(false),
            cut_off: Cell::new(false),
            unpolled: Cell::new(false),
            guest: false,
            came: now,
            retires,
            accepted: Cell::new(accepted),
            poll_time: Cell::default(),
            turn: Cell::new(0),
            reported: Cell::new(0),
            bodies: Bodies::default(),
            unsent: OnceCell::new(),
            waker: RefCell::new(None),
            unwritten: RefCell::default(),
            upgrades: OnceCell::new(),
        }
    }

    /// Records the first byte of a TLS handshake. The deadline is measured from the accept.
    pub(crate) fn begin_handshake(&self) {
        self.reading.set(Reading::Handshake);
        self.check();
    }

    /// Records the end of the handshake. The handshake's time counts towards the timeout for the
    /// first byte of a request, except during a drain, whose own deadline is near.
    pub(crate) fn end_handshake(&self) {
        self.reading.set(Reading::Idle);
        if self.lane.phase.get() != Phase::Serving {
            self.touched.set(true);
        }
        self.check();
    }

    pub(crate) fn lane(&self) -> &LaneState {
        &self.lane
    }

    /// Records bytes that belong to a head, or to a protocol that is not known yet.
    pub(crate) fn received(&self) {
        if self.is_silent() || self.is_in_body() {
            self.enter(Reading::Head);
            self.check();
        }
    }

    /// Records bytes of a body. If the response has already been sent, the next deadline is
    /// measured from now.
    pub(crate) fn received_body(&self) {
        if self.is_in_body() {
            self.touched.set(true);
        }
    }

    pub(crate) fn set_served_by(&self, server: ServedBy) {
        self.served_by.set(server);
        if server == ServedBy::Http2 {
            self.enter(Reading::Idle);
        }
        if server != ServedBy::PlainPath && self.orders.get() == Orders::Park {
            self.orders.set(Orders::None);
        }
        self.check();
    }

    pub(crate) fn is_multiplexed(&self) -> bool {
        self.served_by.get() == ServedBy::Http2
    }

    pub(crate) fn info(&self) -> ConnectionInfo {
        let multiplexed = self.is_multiplexed();
        self.client.info(if multiplexed { Protocol::Http2 } else { Protocol::Http1 })
    }

    pub(crate) fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.lane.trust.client(self.client.ip(), headers)
    }

    /// Called before the connection's task is polled.
    pub(crate) fn begin_turn(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
        if self.lane.polls.are_measured() {
            self.lane.polls.begin(self.served.get());
        }
    }

    /// Called after a poll that left the connection waiting.
    pub(crate) fn end_turn(&self) {
        if self.lane.polls.are_measured() {
            self.lane.polls.end(&self.poll_time);
        }
    }

    fn enter(&self, reading: Reading) {
        self.reading.set(reading);
        self.touched.set(true);
    }

    /// Whether the client has sent part of a header and the server is sending nothing to it.
    pub(crate) fn in_header(&self) -> bool {
        self.reading.get() == Reading::Head && !self.is_unflushed()
    }

    /// Whether no part of the next HTTP/1.1 request has arrived.
    pub(crate) fn is_silent(&self) -> bool {
        self.reading.get() == Reading::Idle && !self.is_multiplexed()
    }

    /// Whether all requests have responses while the rest of the last body is being read or
    /// awaited.
    pub(crate) fn is_in_body(&self) -> bool {
        self.reading.get() == Reading::Body
    }

    pub(crate) fn has_no_request(&self) -> bool {
        matches!(self.reading.get(), Reading::Idle | Reading::Lent)
    }

    pub(crate) fn is_serving(&self) -> bool {
        self.reading.get() == Reading::Serving
    }

    pub(crate) fn tell(&self, order: Order) {
        if !self.is_ordered() && self.reading.get() == Reading::Idle {
            // The next deadline is measured from the order.
            self.touched.set(true);
        }
        self.orders.set(Orders::Given(order));
        self.check();
        self.wake();
    }

    fn is_ordered(&self) -> bool {
        matches!(self.orders.get(), Orders::Given(_) | Orders::Obeyed)
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    pub(crate) fn poll_order(&self, cx: &mut Context<'_>) -> Poll<Order> {
        if let Orders::Given(order) = self.orders.get() {
            self.orders.set(Orders::Obeyed);
            return Poll::Ready(order);
        }
        self.register(cx);
        Poll::Pending
    }

    pub(crate) fn register(&self, cx: &mut Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(old) if old.will_wake(cx.waker()) => {}
            _ => *waker = Some(cx.waker().clone()),
        }
    }
}
