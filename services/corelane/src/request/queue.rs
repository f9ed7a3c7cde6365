//! A lane's slots and the requests waiting for a slot.
//!
//! A cheap request starts at once if a slot is free and not reserved for a waiting request. All
//! other requests are queued. The lane polls its sockets between queued requests, which it starts
//! one at a time. A cheap request therefore waits for at most one slow handler instead of all slow
//! handlers in the same batch.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::base::clock::Tick;
use crate::base::settings::Limits;
use crate::base::tally::Tally;
use crate::load::lane::Lane;
use crate::metrics::LaneMetrics;
use crate::request::offload::Offload;

#[derive(Debug)]
pub(crate) struct Queue {
    lane: Lane,
    timeout: Duration,
    turns: Turns<Ranked>,
    /// Notified when a slot is released or a request is queued.
    changed: Notify,
    /// The slow lanes, if any.
    slow: Option<Rc<dyn Offload>>,
}

#[derive(Debug)]
pub(crate) enum Turn {
    Here(Slot),
    /// The request runs on the slow lane of this other lane, which is idle.
    There(usize),
}

#[derive(Debug)]
pub(crate) enum Admission {
    Start(Slot),
    Wait(Queued),
    /// The queue is full, or the request would not start before its deadline.
    Shed,
}

impl Queue {
    pub(crate) fn new(
        lane: Lane,
        limits: &Limits,
        timeout: Duration,
        slow: Option<Rc<dyn Offload>>,
    ) -> Self {
        Queue {
            lane,
            timeout,
            turns: Turns::new(limits.slots, limits.queue),
            changed: Notify::new(),
            slow,
        }
    }

    /// Admits a request that arrived at `now` and is expected to hold the lane for `expected`
    /// nanoseconds. `is_bound` means that only this lane can serve the request.
    pub(crate) fn admit(self: &Rc<Self>, expected: u64, now: Tick, is_bound: bool) -> Admission {
        if self.turns.may_start(expected) {
            return Admission::Start(Slot::take(self));
        }
        // This time excludes the request itself, because a request does not delay its own start.
        // Otherwise, a route whose estimate once exceeded the timeout would be rejected forever,
        // and its estimate could never improve.
        let before = self.metrics().expected.get().saturating_sub(expected);
        let late = Duration::from_nanos(before) > self.timeout;
        if late || self.turns.is_full() {
            return Admission::Shed;
        }
        let waiter = Rc::new(Waiter::default());
        // Handing over a request takes about as long as `BRIEF`.
        let may_move = !is_bound && expected >= BRIEF;
        let waiting = Ranked { expected, may_move, waiter: Rc::clone(&waiter) };
        let place = self.turns.push(now.nanos(), expected, waiting);
        self.metrics().queued.add(1);
        self.changed.notify_one();
        Admission::Wait(Queued { queue: Rc::clone(self), place, waiter })
    }

    fn metrics(&self) -> &LaneMetrics {
        &self.lane.shared().metrics
    }

    /// Takes the next request if a waiting request can start.
    fn next(self: &Rc<Self>) -> Option<(Rc<Waiter>, Turn)> {
        let (first, turn) = self.turns.next(|first, has_slot| self.turn(first, has_slot))?;
        self.metrics().queued.sub(1);
        Some((first.waiter, turn))
    }

    /// The place where the first waiting request starts, or `None` if it cannot start yet. An idle
    /// lane takes the request if the requests behind it would otherwise have to wait too long.
    fn turn(self: &Rc<Self>, first: &Ranked, has_slot: bool) -> Option<Turn> {
        let behind = self.metrics().expected.get().saturating_sub(first.expected);
        let behind = Duration::from_nanos(behind);
        let slow = self.slow.as_ref().filter(|_| first.may_move);
        if let Some(lane) = slow.and_then(|slow| slow.relief(behind)) {
            return Some(Turn::There(lane));
        }
        has_slot.then(|| Turn::Here(Slot::take(self)))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        debug_assert_eq!(self.turns.running(), 0, "slots were lost");
        debug_assert!(!self.turns.is_waiting(), "requests that wait were lost");
    }
}

pub(crate) async fn run(queue: Rc<Queue>) {
    loop {
        let Some((waiter, turn)) = queue.next() else {
            queue.changed.notified().await;
            continue;
        };
        waiter.turn.replace(Some(turn));
        if let Some(waker) = waiter.waker.take() {
            waker.wake();
        }
        // Continues after the event loop has polled its sockets.
        yield_now().await;
    }
}

#[derive(Debug)]
struct Ranked {
    expected: u64,
    may_move: bool,
    waiter: Rc<Waiter>,
}

#[derive(Debug, Default)]
struct Waiter {
    /// Set when the request may start.
    turn: RefCell<Option<Turn>>,
    waker: RefCell<Option<Waker>>,
}

/// A request's place in the queue, released when dropped.
#[derive(Debug)]
pub(crate) struct Queued {
    queue: Rc<Queue>,
    place: Place,
    waiter: Rc<Waiter>,
}

impl Queued {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if let Some(turn) = self.waiter.turn.take() {
            return Poll::Ready(turn);
        }
        self.waiter.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // Dropping the waiter releases a slot that came with the turn and was not taken.
        if self.queue.turns.leave(self.place).is_some() {
            self.queue.metrics().queued.sub(1);
        }
    }
}

/// A slot of a lane, released when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Rc<Queue>,
}

impl Slot {
    pub(crate) fn take(queue: &Rc<Queue>) -> Slot {
        queue.turns.begin();
        Slot { queue: Rc::clone(queue) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let queue = &self.queue;
        queue.turns.end();
        if queue.turns.is_waiting() {
            queue.changed.notify_one();
        }
    }
}

/// Expected lane time, in nanoseconds, below which a request starts on its own lane without waiting
/// for its turn. For such a short request, waiting or moving would take more time than it would
/// save for other requests.
pub const BRIEF: u64 = 100_000;

/// A request is queued as if it had arrived this multiple of its expected time later. Cheap
/// requests overtake expensive requests, but each request starts eventually, because this delay
/// does not grow while it waits.
pub const HANDICAP: u64 = 8;

/// A queue's slots and the requests waiting for a slot. Does not use a clock or tasks, so the
/// capacity model can run it in simulated time.
#[derive(Debug)]
pub struct Turns<T> {
    slots: usize,
    capacity: usize,
    running: Tally,
    waiting: RefCell<BTreeMap<Place, T>>,
    arrivals: Cell<u64>,
    /// Whether the next free slot is reserved because every slot was taken when a request had to
    /// wait.
    owed: Cell<bool>,
}

/// The place of a waiting request. The request with the smallest place is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    since: u64,
    arrival: u64,
}

impl<T> Turns<T> {
    /// Creates a queue with this many slots and room for `capacity` waiting requests.
    pub fn new(slots: usize, capacity: usize) -> Self {
        Turns {
            slots,
            capacity,
            running: Tally::default(),
            waiting: RefCell::default(),
            arrivals: Cell::new(0),
            owed: Cell::new(false),
        }
    }

    /// Whether any request is waiting.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Whether a slot is free.
    #[inline]
    pub fn has_slot(&self) -> bool {
        self.running.get() < self.slots
    }

    pub(crate) fn running(&self) -> usize {
        self.running.get()
    }

    /// Takes a slot.
    #[inline]
    pub fn begin(&self) {
        self.running.add(1);
    }

    /// Releases a slot.
    #[inline]
    pub fn end(&self) {
        self.running.sub(1);
    }

    /// Whether a request that is expected to take this many nanoseconds starts at once: it is
    /// cheap, and a free slot is not reserved for a waiting request. Without reservations, requests
    /// with little lane time but long slot time would take every free slot.
    #[inline]
    pub fn may_start(&self, expected: u64) -> bool {
        let owed = self.owed.get() && self.is_waiting();
        expected < BRIEF && self.running.get() + usize::from(owed) < self.slots
    }

    /// Whether the queue is full. A request that is waiting for its turn while a slot is free is
    /// not counted.
    pub fn is_full(&self) -> bool {
        let all = self.running.get() + self.waiting.borrow().len();
        all >= self.slots.saturating_add(self.capacity)
    }

    /// Queues a request that arrived at `now` and is expected to take `expected` nanoseconds.
    pub fn push(&self, now: u64, expected: u64, request: T) -> Place {
        let arrival = self.arrivals.get();
        self.arrivals.set(arrival + 1);
        let since = now.saturating_add(expected.saturating_mul(HANDICAP));
        let place = Place { since, arrival };
        self.waiting.borrow_mut().insert(place, request);
        place
    }

    /// Takes the next request and the result of `start`, which receives the request and whether a
    /// slot is free. If `start` returns `None`, the request keeps waiting.
    pub fn next<P>(&self, start: impl FnOnce(&T, bool) -> Option<P>) -> Option<(T, P)> {
        self.owed.set(!self.has_slot());
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        let started = start(first.get(), self.has_slot())?;
        Some((first.remove(), started))
    }

    /// Removes an abandoned request if it is still waiting.
    pub fn leave(&self, place: Place) -> Option<T> {
        self.waiting.borrow_mut().remove(&place)
    }
}
