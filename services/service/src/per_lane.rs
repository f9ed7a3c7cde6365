//! Per-lane counters, which the admin thread sums.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// A counter with a single writer, without locked instructions.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add_one(&self) {
        self.0.store(self.0.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Each `T` is on its own pair of cache lines, because processors prefetch cache lines in pairs.
#[derive(Debug)]
pub(crate) struct PerLane<T>(Mutex<Vec<Arc<Apart<T>>>>);

/// A value on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Default for PerLane<T> {
    fn default() -> Self {
        PerLane(Mutex::default())
    }
}

impl<T> PerLane<T> {
    pub(crate) fn add(&self, counters: T) -> Arc<Apart<T>> {
        let lane = Arc::new(Apart(counters));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&lane));
        lane
    }

    pub(crate) fn sum(&self, count: impl Fn(&T) -> u64) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|lane| count(lane)).sum()
    }
}
