//! Limits the waiting operations of a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::projects::metrics::Metrics;
use crate::projects::store::StoreError;

/// The queue of a lane's operations.
#[derive(Clone, Debug)]
pub(super) struct Line {
    waiting: Arc<AtomicU64>,
    most: u64,
    metrics: Arc<Metrics>,
}

impl Line {
    pub(super) fn new(most: u64, metrics: Arc<Metrics>) -> Self {
        Line { waiting: Arc::default(), most, metrics }
    }

    /// Takes a place in the queue, if it is not full.
    pub(super) fn enter(&self) -> Result<Place, StoreError> {
        // Only the lane adds to it.
        if self.waiting.load(Relaxed) >= self.most {
            return Err(StoreError::Exhausted);
        }
        self.waiting.fetch_add(1, Relaxed);
        self.metrics.queued.inc();
        Ok(Place(self.clone()))
    }
}

/// A place in the queue, released when dropped.
#[derive(Debug)]
pub(super) struct Place(Line);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
        self.0.metrics.queued.dec();
    }
}
