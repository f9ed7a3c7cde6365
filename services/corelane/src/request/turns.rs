//! How queues order requests, on lanes and on slow lanes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::base::tally::Tally;

/// Expected lane time in nanoseconds below which a request starts without waiting for its turn, on its
/// own lane. To wait or to move would cost more than that saves other requests.
pub const BRIEF: u64 = 100_000;

/// A request is queued as if it had arrived later, by this multiple of its expected time. Cheap
/// requests overtake expensive ones. Each starts eventually, because this delay does not grow while
/// it waits.
pub const HANDICAP: u64 = 8;

/// The slots of a queue, and the requests that wait for one. It has neither a clock nor tasks, so the
/// capacity model runs it in simulated time.
#[derive(Debug)]
pub struct Turns<T> {
    slots: usize,
    capacity: usize,
    running: Tally,
    waiting: RefCell<BTreeMap<Place, T>>,
    arrivals: Cell<u64>,
    /// A waiting request found every slot taken: the next free slot is reserved for it.
    owed: Cell<bool>,
}

/// The place of a request that waits. The smallest has the next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    since: u64,
    arrival: u64,
}

impl<T> Turns<T> {
    /// A queue with this many slots, and room for `capacity` requests that wait for one.
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

    /// Whether a request waits.
    #[inline]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Whether a slot is free.
    #[inline]
    pub fn has_slot(&self) -> bool {
        self.running.get() < self.slots
    }

    /// Slots that are taken.
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

    /// Whether a request that is expected to take this many nanoseconds starts at once: it is cheap, and a
    /// free slot is not reserved for a waiting request. Requests with little lane time may hold their slots
    /// for long, and would otherwise take every slot that becomes free.
    #[inline]
    pub fn may_start(&self, expected: u64) -> bool {
        let owed = self.owed.get() && self.is_waiting();
        expected < BRIEF && self.running.get() + usize::from(owed) < self.slots
    }

    /// Whether no further request may wait. One that waits only for its turn and not for a slot does not fill
    /// the queue.
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

    /// Takes the next request, and what `start` returned for it and for whether a slot is free. If that is
    /// nothing, the request waits on.
    pub fn next<P>(&self, start: impl FnOnce(&T, bool) -> Option<P>) -> Option<(T, P)> {
        self.owed.set(!self.has_slot());
        let mut waiting = self.waiting.borrow_mut();
        let first = waiting.first_entry()?;
        let started = start(first.get(), self.has_slot())?;
        Some((first.remove(), started))
    }

    /// Removes an abandoned request, if it still waits.
    pub fn leave(&self, place: Place) -> Option<T> {
        self.waiting.borrow_mut().remove(&place)
    }
}
