//! The slots of a lane and the requests that wait for one.
//!
//! A cheap request starts at once if a slot is free that is not reserved for a waiting request.
//! Other requests are queued. The lane starts one at a time and polls its sockets before the next.
//! So a cheap request waits for at most one slow handler, not for all that arrived in the same
//! batch.

use std::cell::RefCell;
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
use crate::request::turns::{BRIEF, Place, Turns};

/// The slots and the queue of one lane.
#[derive(Debug)]
pub(crate) struct Queue {
    lane: Lane,
    /// Maximum expected wait of a request that is admitted.
    timeout: Duration,
    turns: Turns<Ranked>,
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
            turns: Turns::new(limits.slots, limits.queue),
            changed: Notify::new(),
            slow,
        }
    }

    /// Admits a request that arrived `now` and is expected to hold the lane for `expected`
    /// nanoseconds. `is_bound`: only this lane can serve it.
    pub(crate) fn admit(self: &Rc<Self>, expected: u64, now: Tick, is_bound: bool) -> Admission {
        if self.turns.may_start(expected) {
            return Admission::Start(Slot::take(self));
        }
        // Excludes the request's own time, which does not delay its start. Otherwise a route whose
        // estimate once exceeded the timeout would be rejected forever, and the estimate could not
        // improve.
        let before = self.metrics().expected.get().saturating_sub(expected);
        let late = Duration::from_nanos(before) > self.timeout;
        if late || self.turns.is_full() {
            return Admission::Shed;
        }
        let waiter = Rc::new(Waiter::default());
        // Handing a request over takes about as long as this.
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

    /// Takes the next request, if one waits that can start.
    fn next(self: &Rc<Self>) -> Option<(Rc<Waiter>, Turn)> {
        let (first, turn) = self.turns.next(|first, has_slot| self.turn(first, has_slot))?;
        self.metrics().queued.sub(1);
        Some((first.waiter, turn))
    }

    /// Where the first of those that wait starts; `None` if nowhere yet. An idle lane takes it, if
    /// others wait for long behind it.
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

/// Starts the waiting requests one at a time.
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

/// A request that waits.
#[derive(Debug)]
struct Ranked {
    /// Its own expected time in nanoseconds.
    expected: u64,
    /// Another lane may serve it.
    may_move: bool,
    waiter: Rc<Waiter>,
}

/// State that a waiting request and the queue share.
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
    /// Waits for the turn.
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
        // A slot that came with the turn and was not taken is released with the waiter.
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
