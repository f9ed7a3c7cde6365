//! When the requests that a lane handed over become urgent.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use slab::Slab;

use crate::base::clock::Tick;

/// For each request of a lane that its slow lane has: when half of its time has passed.
#[derive(Debug, Default)]
pub(crate) struct UrgentRequests(RefCell<Slab<Tick>>);

impl UrgentRequests {
    /// A request that began at `begun` and may take the time `allowed`.
    pub(crate) fn enter(self: &Rc<Self>, begun: Tick, allowed: Duration) -> Urgent {
        let half = begun.later((allowed / 2).as_nanos() as u64);
        Urgent { all: Rc::clone(self), key: self.0.borrow_mut().insert(half) }
    }

    /// Whether one has used half of its time.
    pub(crate) fn any(&self, now: Tick) -> bool {
        self.0.borrow().iter().any(|(_, &half)| half < now)
    }
}

/// The entry of one request, removed when dropped.
#[derive(Debug)]
pub(crate) struct Urgent {
    all: Rc<UrgentRequests>,
    key: usize,
}

impl Drop for Urgent {
    fn drop(&mut self) {
        self.all.0.borrow_mut().remove(self.key);
    }
}
