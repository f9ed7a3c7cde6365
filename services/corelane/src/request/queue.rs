//! The slots of a lane and the requests that wait for one.
//!
//! A cheap request starts at once if a slot is free that is not reserved for a waiting request.
//! Other requests are queued. The lane starts one at a time and polls its sockets before the next.
//! So a cheap request waits for at most one slow handler, not for all that arrived in the same
//! batch.

use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::base::clock::Tick;
use crate::base::settings::Limits;
use crate::load::lane::Lane;
use crate::metrics::LaneMetrics;
use crate::request::offload::Offload;

/// Expected lane time in nanoseconds below which a request starts without waiting for its turn, on its
/// own lane. To wait or to move would cost more than that saves other requests.
pub const BRIEF: u64 = 100_000;

/// A request is queued as if it had arrived later, by this multiple of its expected time. Cheap
/// requests overtake expensive ones. Each starts eventually, because this delay does not grow while
/// it waits.
pub const HANDICAP: u64 = 8;

/// The slots and the queue of one lane.
#[derive(Debug)]
pub(crate) struct Queue {
    lane: Lane,
    /// Maximum expected wait of a request that is admitted.
    timeout: Duration,
    slots: usize,
    capacity: usize,
    running: Cell<usize>,
    waiting: RefCell<BinaryHeap<Reverse<Ranked>>>,
    /// Requests that still wait; the heap may also hold abandoned ones.
    length: Cell<usize>,
    arrivals: Cell<u64>,
    /// A waiting request found every slot taken: the next free slot is reserved for it.
    owed: Cell<bool>,
    /// Notified when a slot is released or a request is queued.
    changed: Notify,
    /// The slow lanes, if there are any.
    slow: Option<Rc<dyn Offload>>,
}

/// Where a waiting request starts.
#[derive(Debug)]
pub(crate) enum Turn {
    Here(Slot),
    /// On the slow lane of another lane, which is idle.
    There(usize),
}

/// The result of admitting a request.
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
            slots: limits.slots,
            capacity: limits.queue,
            running: Cell::new(0),
            waiting: RefCell::default(),
            length: Cell::new(0),
            arrivals: Cell::new(0),
            owed: Cell::new(false),
            changed: Notify::new(),
            slow,
        }
    }

    /// Admits a request that arrived `now` and is expected to hold the lane for `expected`
    /// nanoseconds. `is_bound`: only this lane can serve it.
    pub(crate) fn admit(self: &Rc<Self>, expected: u64, now: Tick, is_bound: bool) -> Admission {
        if expected < BRIEF && self.has_slot_to_spare() {
            return Admission::Start(Slot::take(self));
        }
        // A request that waits only for its turn and not for a slot does not fill the queue.
        let full = self.slots.saturating_add(self.capacity);
        // Excludes the request's own time, which does not delay its start. Otherwise a route whose
        // estimate once exceeded the timeout would be rejected forever, and the estimate could not
        // improve.
        let before = self.metrics().expected.get().saturating_sub(expected);
        let late = Duration::from_nanos(before) > self.timeout;
        if late || self.running.get() + self.length.get() >= full {
            return Admission::Shed;
        }
        let waiter = Rc::new(Waiter::default());
        let arrival = self.arrivals.get();
        self.arrivals.set(arrival + 1);
        let since = now.later(expected.saturating_mul(HANDICAP));
        // Handing a request over takes about as long as this.
        let may_move = !is_bound && expected >= BRIEF;
        let ranked = Ranked { since, arrival, expected, may_move, waiter: Rc::clone(&waiter) };
        self.waiting.borrow_mut().push(Reverse(ranked));
        self.lengthen();
        self.changed.notify_one();
        Admission::Wait(Queued { queue: Rc::clone(self), waiter, started: false })
    }

    /// Whether a free slot is not reserved for a waiting request. Requests with little lane time
    /// may hold their slots for long, and would otherwise take every slot that becomes free.
    fn has_slot_to_spare(&self) -> bool {
        let owed = self.owed.get() && self.length.get() > 0;
        self.running.get() + usize::from(owed) < self.slots
    }

    fn metrics(&self) -> &LaneMetrics {
        &self.lane.shared().metrics
    }

    fn lengthen(&self) {
        self.length.set(self.length.get() + 1);
        self.metrics().queued.add(1);
    }

    fn shorten(&self) {
        self.length.set(self.length.get() - 1);
        self.metrics().queued.sub(1);
    }

    /// Removes abandoned requests once they are more than half of the heap.
    fn prune(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() > 64 + 2 * self.length.get() {
            waiting.retain(|Reverse(ranked)| !ranked.waiter.left.get());
        }
    }

    /// Takes the next request, if one waits that can start.
    fn next(self: &Rc<Self>) -> Option<(Rc<Waiter>, Turn)> {
        self.owed.set(self.running.get() >= self.slots);
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let Reverse(first) = waiting.peek()?;
            let turn = match first.waiter.left.get() {
                true => None,
                false => Some(self.turn(first)?),
            };
            let Reverse(first) = waiting.pop()?;
            if let Some(turn) = turn {
                return Some((first.waiter, turn));
            }
        }
    }

    /// Where the first of those that wait starts; `None` if nowhere yet. An idle lane takes it, if
    /// others wait for long behind it.
    fn turn(self: &Rc<Self>, first: &Ranked) -> Option<Turn> {
        let behind = self.metrics().expected.get().saturating_sub(first.expected);
        let behind = Duration::from_nanos(behind);
        let slow = self.slow.as_ref().filter(|_| first.may_move);
        if let Some(lane) = slow.and_then(|slow| slow.relief(behind)) {
            return Some(Turn::There(lane));
        }
        (!self.owed.get()).then(|| Turn::Here(Slot::take(self)))
    }
}

/// Starts the waiting requests one at a time.
pub(crate) async fn run(queue: Rc<Queue>) {
    loop {
        let Some((waiter, turn)) = queue.next() else {
            queue.changed.notified().await;
            continue;
        };
        queue.shorten();
        waiter.turn.replace(Some(turn));
        if let Some(waker) = waiter.waker.take() {
            waker.wake();
        }
        // Continues after the event loop has polled its sockets.
        yield_now().await;
    }
}

/// A request in the heap. The one with the smallest `since` starts next.
#[derive(Debug)]
struct Ranked {
    since: Tick,
    arrival: u64,
    /// Its own expected time in nanoseconds.
    expected: u64,
    /// Another lane may serve it.
    may_move: bool,
    waiter: Rc<Waiter>,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.since, self.arrival).cmp(&(other.since, other.arrival))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

/// State that a waiting request and the heap share.
#[derive(Debug, Default)]
struct Waiter {
    /// Set when the request may start.
    turn: RefCell<Option<Turn>>,
    /// The request was dropped.
    left: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A request's place in the queue, released when dropped.
#[derive(Debug)]
pub(crate) struct Queued {
    queue: Rc<Queue>,
    waiter: Rc<Waiter>,
    started: bool,
}

impl Queued {
    /// Waits for the turn.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if let Some(turn) = self.waiter.turn.take() {
            self.started = true;
            return Poll::Ready(turn);
        }
        self.waiter.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // If the turn came but was not taken, its slot is released here.
        if self.started || self.waiter.turn.take().is_some() {
            return;
        }
        self.waiter.left.set(true);
        self.queue.shorten();
        self.queue.prune();
    }
}

/// A slot of a lane, released when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: Rc<Queue>,
}

impl Slot {
    pub(crate) fn take(queue: &Rc<Queue>) -> Slot {
        queue.running.set(queue.running.get() + 1);
        Slot { queue: Rc::clone(queue) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let queue = &self.queue;
        queue.running.set(queue.running.get() - 1);
        if queue.length.get() > 0 {
            queue.changed.notify_one();
        }
    }
}
