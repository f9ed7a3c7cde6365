//! The waiting requests of a lane: in the queue, or inside their handler.
//!
//! Requests that finish in their first poll are not recorded, so that deadlines and drain reports
//! cost them nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use slab::Slab;

use crate::base::clock::Tick;
use crate::metrics::kind::KindIndex;
use crate::request::current::Current;

/// A waiting request.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) kind: KindIndex,
    begun: Tick,
    /// Longest time from `begun` to the head of the reply.
    allowed: Cell<Duration>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// All waiting requests of a lane.
#[derive(Debug, Default)]
pub(crate) struct Pending(RefCell<Slab<Rc<Waiting>>>);

impl Pending {
    /// Wakes the requests whose deadline has passed, which then see that they expired.
    pub(crate) fn expire(&self, now: Tick) {
        for (_, waiting) in self.0.borrow().iter() {
            let lasted = Duration::from_nanos(now.since(waiting.begun));
            if !waiting.expired.get() && lasted > waiting.allowed.get() {
                waiting.expired.set(true);
                if let Some(waker) = waiting.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
    }

    /// The kind and age of each waiting request.
    pub(crate) fn ages(&self, now: Tick) -> Vec<(KindIndex, Duration)> {
        let waiting = self.0.borrow();
        let ages = waiting
            .iter()
            .map(|(_, waiting)| (waiting.kind, Duration::from_nanos(now.since(waiting.begun))));
        ages.collect()
    }
}

/// A waiting request among those of its lane, removed when dropped.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    pending: Rc<Pending>,
    waiting: Rc<Waiting>,
    key: usize,
}

impl PendingRequest {
    pub(crate) fn new(pending: &Rc<Pending>, current: Current) -> Self {
        let Current { kind, begun, allowed, .. } = current;
        let allowed = Cell::new(allowed.into());
        let (expired, waker) = (Cell::new(false), RefCell::new(None));
        let waiting = Rc::new(Waiting { kind, begun, allowed, expired, waker });
        let key = pending.0.borrow_mut().insert(Rc::clone(&waiting));
        PendingRequest { pending: Rc::clone(pending), waiting, key }
    }

    /// The handler waits, with this time allowed.
    pub(crate) fn allow(&self, allowed: Duration) {
        self.waiting.allowed.set(allowed);
    }

    /// Whether the deadline has passed. Otherwise registers the waker for it.
    pub(crate) fn is_expired(&self, cx: &mut Context<'_>) -> bool {
        if self.waiting.expired.get() {
            return true;
        }
        let mut waker = self.waiting.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.pending.0.borrow_mut().remove(self.key);
    }
}
