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

/// Expected lane time in nanoseconds below which a request starts without waiting for its turn,
/// because waiting would cost more than it saves other requests.
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
    pub(crate) fn new(lane: Lane, limits: &Limits, timeout: Duration) -> Self {
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
        }
    }

    /// Admits a request that arrived `now` and is expected to hold the lane for `expected`
    /// nanoseconds.
    pub(crate) fn admit(self: &Rc<Self>, expected: u64, now: Tick) -> Admission {
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
        let ranked = Ranked { since, arrival, waiter: Rc::clone(&waiter) };
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

    /// Takes the next request, if one waits and a slot is free.
    fn next(&self) -> Option<Rc<Waiter>> {
        self.owed.set(self.running.get() >= self.slots);
        if self.owed.get() {
            return None;
        }
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let Reverse(ranked) = waiting.pop()?;
            if !ranked.waiter.left.get() {
                return Some(ranked.waiter);
            }
        }
    }
}

/// Starts the waiting requests one at a time.
pub(crate) async fn run(queue: Rc<Queue>) {
    loop {
        let Some(waiter) = queue.next() else {
            queue.changed.notified().await;
            continue;
        };
        queue.shorten();
        waiter.slot.replace(Some(Slot::take(&queue)));
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
    slot: RefCell<Option<Slot>>,
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
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Slot> {
        if let Some(slot) = self.waiter.slot.take() {
            self.started = true;
            return Poll::Ready(slot);
        }
        self.waiter.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        // If the turn came but was not taken, its slot is released here.
        if self.started || self.waiter.slot.take().is_some() {
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
    fn take(queue: &Rc<Queue>) -> Slot {
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
