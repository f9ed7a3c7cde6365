//! What a lane knows of each of its connections, and how it tells one to end.
//!
//! No time is read on a request's way: what happens raises a flag, and the lane's next sweep takes
//! its own time for it. So a deadline begins late by one sweep at most, and never early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use crate::body_watch::Bodies;
use crate::clock::Tick;
use crate::idle::{self, Taken};
use crate::lane::LaneState;
use crate::load_table::KindIndex;
use crate::metrics::Refusal;
use crate::shared::Phase;
use crate::trail::Trail;

mod due;
mod leaving;
mod order;
mod registration;
mod rest;
mod unwritten;

use due::Missed;
pub(crate) use due::{Due, HangsOn, Wait};
pub(crate) use leaving::Closing;
pub(crate) use order::Order;
pub(crate) use registration::Registration;
use unwritten::Unwritten;

/// Where a connection is between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Nothing was asked.
    Idle,
    /// The TLS handshake has begun.
    Handshake,
    /// The first byte of an HTTP/1.1 request came, its header is not complete.
    Header,
    /// Requests are in flight.
    Serving,
    /// Our side is closed; the client's is not yet.
    Leaving,
}

/// One connection, shared by its I/O, its service and its lane; all on one thread.
#[derive(Debug)]
pub(crate) struct Connection {
    lane: Rc<LaneState>,
    activity: Cell<Activity>,
    /// Since when, by the sweep.
    since: Cell<Instant>,
    /// `since` is to be set by the next sweep.
    touched: Cell<bool>,
    /// Requests that were begun, and that were ended.
    begun: Cell<u64>,
    served: Cell<u64>,
    /// Sweeps that have looked at it since it was at rest; more if it was not.
    looks: Cell<u8>,
    /// Requests that were ended before the connection came to this lane.
    brought: Cell<u64>,
    /// Requests whose replies are not made, or not written to their end.
    in_flight: Cell<u32>,
    /// The fast path serves it; otherwise hyper does, for the rest of its life.
    plain: Cell<bool>,
    /// The client said that this request is the last.
    asked_last: Cell<bool>,
    /// It is to park as soon as it is idle.
    to_park: Cell<bool>,
    /// When it came to this lane.
    came: Instant,
    /// What it takes of its lane, while that wants to know.
    pub(crate) taken: Cell<Taken>,
    /// Generation of the last load report that it was sent.
    reported: Cell<u32>,
    /// A request announced a body, of which some may be unread.
    had_body: Cell<bool>,
    /// Bodies of requests that the service may wait for.
    pub(crate) bodies: Bodies,
    /// The client's side is waited for no longer.
    abandoned: Cell<bool>,
    /// HTTP/2 frames are not requests: bytes alone do not begin a header.
    multiplexed: Cell<bool>,
    /// An HTTP/1.1 connection failed while a request waited: most often the client reset it.
    gone: Cell<bool>,
    /// It ended its side only, or so it seems: a close looks the same at first.
    ended: Cell<bool>,
    /// What sweeps saw of a request that waits for a client that ended its side.
    missed: Cell<Option<Missed>>,
    /// A request was passed on that hyper has not polled.
    unpolled: Cell<bool>,
    order: Cell<Option<Order>>,
    /// An order was given once.
    told: Cell<bool>,
    /// When the connection is old enough to go.
    retires: Option<Instant>,
    /// Its next reply is its last.
    last: Cell<bool>,
    /// Bytes of replies wait for the client to read.
    unflushed: Cell<bool>,
    /// They did so at the last sweep.
    stalled: Cell<bool>,
    /// The client took bytes since the last sweep.
    progressed: Cell<bool>,
    /// Closing the socket is to drop what it holds.
    reset: Cell<bool>,
    /// What is written belongs to a request that was dispatched, or is ours.
    asked: Cell<bool>,
    /// Its last reply refuses what the client sent.
    refused: Cell<bool>,
    /// The stream was cut where its framing is ambiguous.
    ambiguous: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// When it was accepted, until its first request.
    accepted: Cell<Option<Tick>>,
    /// Counts the polls of the connection.
    turn: Cell<u32>,
    /// The request that ended last, until its reply is written.
    unwritten: RefCell<Option<Unwritten>>,
}

impl Connection {
    fn make(lane: Rc<LaneState>, retires: Option<Instant>, accepted: Option<Tick>) -> Self {
        let now = lane.clock.get();
        Connection {
            accepted: Cell::new(accepted),
            lane,
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
            taken: Cell::default(),
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
            told: Cell::new(false),
            retires,
            last: Cell::new(false),
            unflushed: Cell::new(false),
            stalled: Cell::new(false),
            progressed: Cell::new(false),
            reset: Cell::new(false),
            asked: Cell::new(false),
            refused: Cell::new(false),
            ambiguous: Cell::new(false),
            waker: RefCell::new(None),
            turn: Cell::new(0),
            unwritten: RefCell::default(),
        }
    }

    /// The first byte of a TLS handshake came. Its deadline counts from the accept.
    pub(crate) fn begin_handshake(&self) {
        self.activity.set(Activity::Handshake);
    }

    /// The handshake is done. The time it took is part of the time for the first byte of a
    /// request, except in a drain, whose own deadline is near.
    pub(crate) fn end_handshake(&self, lane: &LaneState) {
        self.activity.set(Activity::Idle);
        if lane.phase.get() != Phase::Serving {
            self.touched.set(true);
        }
    }

    pub(crate) fn lane(&self) -> &LaneState {
        &self.lane
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

    /// hyper is about to be polled.
    pub(crate) fn begin_turn(&self) {
        self.turn.set(self.turn.get().wrapping_add(1));
        idle::begin_poll(self);
    }

    /// Who serves it from here on: the fast path, or hyper.
    pub(crate) fn set_plain(&self, plain: bool) {
        self.plain.set(plain);
    }

    /// The client says whether the request that begins is the last.
    pub(crate) fn set_asked_last(&self, last: bool) {
        self.asked_last.set(last);
    }

    /// A request begins; the first of a connection gets to know when that was accepted.
    pub(crate) fn begin_request(&self, has_body: bool) -> Option<Tick> {
        self.asked.set(true);
        self.unpolled.set(!self.multiplexed.get());
        self.had_body.set(self.had_body.get() || has_body);
        self.activity.set(Activity::Serving);
        self.begun.set(self.begun.get() + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        if self.lane.limits.connection_requests.is_some_and(|limit| self.begun.get() >= limit) {
            self.retire(Refusal::Requests);
        }
        self.accepted.take()
    }

    /// A request ended; `made` is its kind and when the head of its reply was ready, if it was.
    pub(crate) fn end_request(&self, made: Option<(KindIndex, Tick)>, trail: Option<Box<Trail>>) {
        // Pipelined: the last bytes of the one before go out with those of this one.
        self.observe_write(self.unwritten.take());
        let turn = self.turn.get();
        match (made, trail) {
            (Some((kind, made)), trail) => {
                self.unwritten.replace(Some(Unwritten { kind, made, turn, trail }));
            }
            (None, Some(trail)) => self.lane.end_trail(trail, None),
            (None, None) => {}
        }
        self.in_flight.set(self.in_flight.get() - 1);
        self.served.set(self.served.get() + 1);
        if self.in_flight.get() == 0 && self.activity.get() != Activity::Leaving {
            self.enter(Activity::Idle);
        }
    }

    /// Its next reply is its last: by age or number of requests, which is no failure.
    fn retire(&self, reason: Refusal) {
        if self.last.replace(true) {
            return;
        }
        self.lane.metrics().refuse(reason);
        if self.multiplexed.get() {
            self.tell(Order::Finish);
        }
    }

    /// The next reply of an HTTP/1.1 connection is its last.
    pub(crate) fn close_after_reply(&self) {
        self.last.set(true);
    }

    /// Whether the reply that is being made is the last.
    pub(crate) fn is_last_reply(&self) -> bool {
        self.last.get()
    }

    /// Whether a load report of this generation is new to the client; from now on it is not.
    pub(crate) fn is_news(&self, generation: u32) -> bool {
        self.reported.replace(generation) != generation
    }

    /// hyper polls the request that it was given last.
    pub(crate) fn set_polled(&self) {
        self.unpolled.set(false);
    }

    /// Whether hyper may have forgotten a request; asked once for each. One that comes while the
    /// reply before waits for its client is not polled when that is written, unless something
    /// wakes the connection.
    pub(crate) fn take_unpolled(&self) -> bool {
        self.unpolled.take()
    }

    /// Whether bytes of a reply wait for the client to read.
    pub(crate) fn is_unflushed(&self) -> bool {
        self.unflushed.get()
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
        self.asked.set(self.in_flight.get() > 0);
        self.observe_write(self.unwritten.take());
    }

    /// Whether an HTTP/1.1 request waits for its service, and not for its client: then hyper does
    /// not read, and cannot hear the client leave.
    pub(crate) fn waits_for_service(&self) -> bool {
        self.in_flight.get() > 0
            && !self.multiplexed.get()
            && !self.unflushed.get()
            && !self.bodies.is_awaited()
    }

    /// Nothing can be read of the connection any more.
    pub(crate) fn set_gone(&self) {
        self.gone.set(true);
    }

    /// The client closed the connection, or its side of it.
    pub(crate) fn set_ended(&self) {
        self.ended.set(true);
    }

    /// Whether nobody is there for the reply to a request that waits. A reply that is being
    /// written is another thing: the client may have closed its side only, and still read.
    pub(crate) fn is_deserted(&self) -> bool {
        self.gone.get() && self.waits_for_service()
    }

    /// Whether closing the socket is to drop what it holds.
    pub(crate) fn is_reset(&self) -> bool {
        self.reset.get()
    }

    pub(crate) fn set_reset(&self) {
        self.reset.set(true);
    }

    /// Whether hyper writes what no request asked for: its reply to a head that it refuses. One
    /// that it writes while bytes of the reply before still wait cannot be told from them.
    pub(crate) fn is_unasked(&self) -> bool {
        !self.asked.get() && !self.multiplexed.get()
    }

    pub(crate) fn set_ambiguous(&self) {
        self.ambiguous.set(true);
    }

    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous.get()
    }

    /// What is written next is a reply of ours.
    pub(crate) fn speak(&self) {
        self.asked.set(true);
    }

    /// Requests that are lost if the connection is cut now: those in flight, or the reply whose
    /// end the socket has not taken.
    pub(crate) fn unanswered(&self) -> u64 {
        u64::from(self.in_flight.get().max(u32::from(self.unflushed.get())))
    }

    fn enter(&self, activity: Activity) {
        self.activity.set(activity);
        self.touched.set(true);
    }

    /// Whether a client has begun a request, not finished it, and nothing is being sent to it.
    pub(crate) fn in_header(&self) -> bool {
        self.activity.get() == Activity::Header && !self.unflushed.get()
    }

    /// Whether nothing of a first or next HTTP/1.1 request has come.
    pub(crate) fn is_silent(&self) -> bool {
        self.activity.get() == Activity::Idle && !self.multiplexed.get()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The socket did not take the end of this reply.
        if let Some(trail) = self.unwritten.take().and_then(|unwritten| unwritten.trail) {
            self.lane.end_trail(trail, None);
        }
    }
}
