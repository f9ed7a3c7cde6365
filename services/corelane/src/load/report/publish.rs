//! Passes reports from the admin thread to the replies.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

const NAME: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// The latest report, for all lanes. On its own cache lines, so that a lane, which checks it for
/// each reply, has a cache miss only if it changed.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    /// Incremented with each report.
    generation: AtomicU32,
    /// `None` while there is no report.
    report: Mutex<Option<HeaderValue>>,
}

impl Published {
    /// Publishes a report, or its absence.
    pub(super) fn publish(&self, report: Option<HeaderValue>) {
        let mut slot = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.is_some() || slot.is_some() {
            *slot = report;
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// A lane's copy of the latest report. The shared slot is read only after a change.
#[derive(Debug)]
pub(crate) struct LaneReports {
    published: Arc<Published>,
    generation: Cell<u32>,
    copy: RefCell<Option<HeaderValue>>,
}

impl LaneReports {
    pub(crate) fn new(published: Arc<Published>) -> Self {
        LaneReports { published, generation: Cell::new(0), copy: RefCell::default() }
    }

    /// Adds the latest report to a reply, unless its connection has received it. `reported`: the
    /// generation of the last report sent on the connection.
    pub(crate) fn sign(&self, reported: &Cell<u32>, headers: &mut HeaderMap) {
        if self.published.generation.load(Ordering::Acquire) != self.generation.get() {
            self.refresh();
        }
        let generation = self.generation.get();
        if reported.replace(generation) != generation
            && let Some(report) = &*self.copy.borrow()
        {
            headers.insert(NAME, report.clone());
        }
    }

    fn refresh(&self) {
        // Lanes do not block on the lock: the slot is free again before the next reply.
        let Ok(slot) = self.published.report.try_lock() else { return };
        // A copy instead of a clone, because lanes must not share a reference count.
        let copy = slot.as_ref().and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        self.copy.replace(copy);
        self.generation.set(self.published.generation.load(Ordering::Acquire));
    }
}
