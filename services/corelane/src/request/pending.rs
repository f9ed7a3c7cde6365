//! A lane's waiting requests, in the queue or inside their handlers.
//!
//! A request that finishes in its first poll is not recorded, so deadlines and drain reports cost
//! it nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::base::clock::Tick;
use crate::base::registry::{Entry, Registry};
use crate::metrics::kind::KindIndex;

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) kind: KindIndex,
    begun: Tick,
    /// Maximum time from `begun` to the response head.
    allowed: Cell<Duration>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Debug, Default)]
pub(crate) struct Pending(Registry<Rc<Waiting>>);

impl Pending {
    /// Wakes requests whose deadline has passed, which then find that they have expired.
    pub(crate) fn expire(&self, now: Tick) {
        for (_, waiting) in self.0.all().iter() {
            let lasted = Duration::from_nanos(now.since(waiting.begun));
            if !waiting.expired.get() && lasted > waiting.allowed.get() {
                waiting.expired.set(true);
                if let Some(waker) = waiting.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
    }

    pub(crate) fn ages(&self, now: Tick) -> Vec<(KindIndex, Duration)> {
        let waiting = self.0.all();
        let ages = waiting
            .iter()
            .map(|(_, waiting)| (waiting.kind, Duration::from_nanos(now.since(waiting.begun))));
        ages.collect()
    }
}

#[derive(Debug)]
pub(crate) struct PendingRequest {
    waiting: Rc<Waiting>,
    _entry: Entry<Rc<Waiting>>,
}

impl PendingRequest {
    pub(crate) fn new(pending: &Pending, kind: KindIndex, begun: Tick, allowed: Duration) -> Self {
        let (allowed, expired, waker) = (allowed.into(), Cell::new(false), RefCell::new(None));
        let waiting = Rc::new(Waiting { kind, begun, allowed, expired, waker });
        let entry = pending.0.enter(Rc::clone(&waiting));
        PendingRequest { waiting, _entry: entry }
    }

    pub(crate) fn allow(&self, allowed: Duration) {
        self.waiting.allowed.set(allowed);
    }

    /// If the deadline has not passed, registers the waker.
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
