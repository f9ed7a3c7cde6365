//! The state of a lane's connections, and the orders to end them.
//!
//! Handling a request does not read the clock for this state. Events set flags, and the next sweep
//! assigns its own time to them. So a deadline starts up to one sweep late, and never early.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::HeaderMap;

use crate::base::clock::Tick;
use crate::base::phase::Phase;
use crate::request::body_watch::Bodies;
use crate::request::client::{Client, ConnectionInfo, Protocol};
use crate::request::finished::Cut;
use crate::request::lane_state::LaneState;
use crate::request::polls::PollTime;
use crate::request::unsent::Unsent;

mod due;
mod leaving;
mod requests;
mod rest;

pub(crate) use due::{Due, HangsOn, Wait, order_for};
use due::{Missed, retire_after};
pub(crate) use leaving::Closing;
use leaving::Upgrades;
use requests::Unwritten;
pub(crate) use rest::History;

/// The state of a connection between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// No request has begun.
    Idle,
    /// The TLS handshake has begun.
    Handshake,
    /// The first byte of an HTTP/1.1 request arrived, but not the whole header.
    Header,
    /// Requests are in flight.
    Serving,
    /// Another protocol uses the connection, to its end.
    Upgraded,
    /// Our side is closed, the client's side is still open.
    Leaving,
}

/// An order to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// End as soon as nothing is in flight (HTTP/2: after GOAWAY).
    Finish,
    /// The client did not complete its header in time, or has disconnected: end now, after a 408 if
    /// a header had begun.
    Expire,
    /// The client does not read its replies: drop them, including the kernel's part.
    Reset,
}

/// One connection, shared by its I/O, its service and its lane on one thread.
#[derive(Debug)]
pub(crate) struct Connection {
    lane: Rc<LaneState>,
    pub(crate) client: Client,
    activity: Cell<Activity>,
    /// Start of the current activity, as set by a sweep.
    since: Cell<Instant>,
    /// The next sweep has to set `since`.
    touched: Cell<bool>,
    /// Number of requests that began, and that ended.
    begun: Cell<u64>,
    served: Cell<u64>,
    /// Number of sweeps since the connection was resumed; higher if it was never parked.
    looks: Cell<u8>,
    /// Requests that ended before the connection was moved to this lane.
    brought: Cell<u64>,
    /// Requests whose replies are not made, or not written to their end.
    in_flight: Cell<u32>,
    /// The plain path serves it; otherwise hyper does, for the rest of its life.
    plain: Cell<bool>,
    /// The client said that this request is the last.
    asked_last: Cell<bool>,
    /// It is to park as soon as it is idle.
    to_park: Cell<bool>,
    /// When the connection arrived at this lane.
    came: Instant,
    /// The time of its polls, while the lane measures it.
    pub(crate) poll_time: Cell<PollTime>,
    /// Generation of the last load report sent on it.
    reported: Cell<u32>,
    /// A request announced a body, part of which may be unread.
    had_body: Cell<bool>,
    /// Request bodies that the service may be waiting for.
    pub(crate) bodies: Bodies,
    /// The connection no longer waits for the client to close its side.
    abandoned: Cell<bool>,
    /// HTTP/2: received bytes do not imply that a request header has begun.
    multiplexed: Cell<bool>,
    /// An HTTP/1.1 connection failed while a request waited, usually by a reset.
    gone: Cell<bool>,
    /// The client closed its sending side. A full close looks the same at first.
    ended: Cell<bool>,
    /// How long sweeps have seen a request wait after the client closed its side.
    missed: Cell<Option<Missed>>,
    /// The future of the last request was made and not polled yet.
    unpolled: Cell<bool>,
    order: Cell<Option<Order>>,
    /// An order was given.
    ordered: Cell<bool>,
    /// The time at which the connection reaches its maximum age.
    retires: Option<Instant>,
    /// The next reply closes the connection.
    last: Cell<bool>,
    /// Bytes of replies wait for the client to read.
    unflushed: Cell<bool>,
    /// `unflushed` was already set at the last sweep.
    stalled: Cell<bool>,
    /// Bytes that the socket has accepted since the last sweep.
    accepted_bytes: Cell<u64>,
    /// How long the client may still be slow; set by sweeps.
    left: Cell<Duration>,
    /// What hyper has of its replies; made when that begins.
    unsent: OnceCell<Rc<Unsent>>,
    /// Why the client was abandoned.
    cut: Cell<Option<Cut>>,
    /// Closing the socket discards the data that it holds.
    reset: Cell<bool>,
    /// The output belongs to a dispatched request, or is our own.
    asked: Cell<bool>,
    /// Its last reply refuses what the client sent.
    refused: Cell<bool>,
    /// The input was ended before hyper had read it.
    cut_off: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// When the connection was accepted; taken by its first request.
    accepted: Cell<Option<Tick>>,
    /// Counts the polls of the connection.
    turn: Cell<u32>,
    /// The request that ended last, until its reply is written.
    unwritten: RefCell<Option<Unwritten>>,
    /// Another lane lends it.
    guest: Cell<bool>,
    /// Set by its first upgrade.
    upgrades: OnceCell<Box<Upgrades>>,
}

impl Connection {
    /// A new connection. `chance`: a random number from 0 to 1.
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
            accepted: Cell::new(accepted),
            lane,
            client,
            activity: Cell::new(Activity::Idle),
            since: Cell::new(now),
            touched: Cell::new(true),
            begun: Cell::new(0),
            served: Cell::new(0),
            looks: Cell::new(1),
            brought: Cell::new(0),
            in_flight: Cell::new(0),
            plain: Cell::new(false),
            asked_last: Cell::new(false),
            to_park: Cell::new(false),
            came: now,
            poll_time: Cell::default(),
            reported: Cell::new(0),
            had_body: Cell::new(false),
            bodies: Bodies::default(),
            abandoned: Cell::new(false),
            multiplexed: Cell::new(false),
            gone: Cell::new(false),
            ended: Cell::new(false),
            missed: Cell::new(None),
            unpolled: Cell::new(false),
            order: Cell::new(None),
            ordered: Cell::new(false),
            retires,
            last: Cell::new(false),
            unflushed: Cell::new(false),
            stalled: Cell::new(false),
            accepted_bytes: Cell::new(0),
            left: Cell::default(),
            unsent: OnceCell::new(),
            cut: Cell::new(None),
            reset: Cell::new(false),
            asked: Cell::new(false),
            refused: Cell::new(false),
            cut_off: Cell::new(false),
            waker: RefCell::new(None),
            turn: Cell::new(0),
            unwritten: RefCell::default(),
            guest: Cell::new(false),
            upgrades: OnceCell::new(),
        }
    }

    /// The first byte of a TLS handshake arrived. The deadline counts from the accept.
    pub(crate) fn begin_handshake(&self) {
        self.activity.set(Activity::Handshake);
    }

    /// The handshake is complete. Its time counts towards the timeout for the first byte of a
    /// request, except in a drain, whose own deadline is near.
    pub(crate) fn end_handshake(&self) {
        self.activity.set(Activity::Idle);
        if self.lane.phase.get() != Phase::Serving {
            self.touched.set(true);
        }
    }

    pub(crate) fn lane(&self) -> &LaneState {
        &self.lane
    }

    /// Bytes arrived from the client.
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

    /// What a service can learn about it.
    pub(crate) fn info(&self) -> ConnectionInfo {
        let multiplexed = self.multiplexed.get();
        self.client.info(if multiplexed { Protocol::Http2 } else { Protocol::Http1 })
    }

    /// The IP address of the client of a request with these headers.
    pub(crate) fn client_addr(&self, headers: &HeaderMap) -> Option<IpAddr> {
        self.lane.trust.client(self.client.ip(), headers)
    }

    /// hyper is about to be polled.
    pub(crate) fn begin_turn(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
        if self.lane.polls.are_measured() {
            self.lane.polls.begin(self.served.get());
        }
    }

    /// It was polled and waits.
    pub(crate) fn end_turn(&self) {
        if self.lane.polls.are_measured() {
            self.lane.polls.end(&self.poll_time);
        }
    }

    /// Who serves it from here on: the plain path, or hyper.
    pub(crate) fn set_plain(&self, plain: bool) {
        self.plain.set(plain);
    }

    fn enter(&self, activity: Activity) {
        self.activity.set(activity);
        self.touched.set(true);
    }

    /// Whether a client has sent part of a header, and nothing is being sent to it.
    pub(crate) fn in_header(&self) -> bool {
        self.activity.get() == Activity::Header && !self.unflushed.get()
    }

    /// Whether nothing of the next HTTP/1.1 request has arrived.
    pub(crate) fn is_silent(&self) -> bool {
        self.activity.get() == Activity::Idle && !self.multiplexed.get()
    }

    /// Gives an order and wakes the connection's task.
    pub(crate) fn tell(&self, order: Order) {
        self.order.set(Some(order));
        if !self.ordered.replace(true) && self.activity.get() == Activity::Idle {
            // The next deadline counts from the order.
            self.touched.set(true);
        }
        self.wake();
    }

    /// Wakes its task.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Takes the order, or registers the waker for the next one.
    pub(crate) fn poll_order(&self, cx: &mut Context<'_>) -> Poll<Order> {
        if let Some(order) = self.order.take() {
            return Poll::Ready(order);
        }
        self.register(cx);
        Poll::Pending
    }

    /// Registers the waker for [`Connection::wake`].
    pub(crate) fn register(&self, cx: &mut Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(old) if old.will_wake(cx.waker()) => {}
            _ => *waker = Some(cx.waker().clone()),
        }
    }
}
