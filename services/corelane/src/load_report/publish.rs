//! The way of a report from the admin thread to the replies.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::connection::Connection;

const NAME: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// The latest report, for all lanes. Aligned to cache lines of its own, so that a lane which looks
/// for news at each reply misses its cache only when there is some.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    /// Grows with each report.
    generation: AtomicU32,
    /// None while there is nothing to say.
    report: Mutex<Option<HeaderValue>>,
}

impl Published {
    /// Publishes a report, or that there is none.
    pub(super) fn publish(&self, report: Option<HeaderValue>) {
        let mut slot = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.is_some() || slot.is_some() {
            *slot = report;
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// A lane's copy of the latest report. The shared slot is read only after it has changed.
#[derive(Debug, Default)]
pub(crate) struct LaneReports {
    generation: Cell<u32>,
    copy: RefCell<Option<HeaderValue>>,
}

impl LaneReports {
    /// Puts the latest report into a reply, unless its connection has had it.
    pub(crate) fn sign(
        &self,
        published: &Published,
        connection: &Connection,
        headers: &mut HeaderMap,
    ) {
        if published.generation.load(Ordering::Acquire) != self.generation.get() {
            self.refresh(published);
        }
        if connection.is_news(self.generation.get())
            && let Some(report) = &*self.copy.borrow()
        {
            headers.insert(NAME, report.clone());
        }
    }

    fn refresh(&self, published: &Published) {
        // A lane waits for nobody: whoever holds the slot is done before the next reply.
        let Ok(slot) = published.report.try_lock() else { return };
        // A copy, not a clone: lanes must not share a reference count.
        let copy = slot.as_ref().and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        self.copy.replace(copy);
        self.generation.set(published.generation.load(Ordering::Acquire));
    }
}
