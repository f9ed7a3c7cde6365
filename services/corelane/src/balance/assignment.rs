//! Connections per lane, for `least-loaded` placement.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of connections that are open on each lane or queued for that lane.
#[derive(Debug)]
pub(crate) struct Assignments(Vec<AlignedCount>);

#[derive(Debug, Default)]
#[repr(align(128))]
struct AlignedCount(AtomicUsize);

impl Assignments {
    pub(crate) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Assignments((0..lanes).map(|_| AlignedCount::default()).collect()))
    }

    pub(crate) fn get(&self, lane: usize) -> usize {
        self.0[lane].0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, lane: usize) {
        self.0[lane].0.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, lane: usize) {
        self.0[lane].0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn reassign(&self, from: usize, to: usize) {
        self.remove(from);
        self.add(to);
    }
}

/// Counts a connection for a lane until it is dropped.
#[derive(Debug)]
pub(crate) struct Assignment {
    counts: Arc<Assignments>,
    lane: usize,
}

impl Assignment {
    pub(crate) fn new(counts: &Arc<Assignments>, lane: usize) -> Self {
        Assignment { counts: Arc::clone(counts), lane }
    }

    pub(crate) fn follow(&mut self, lane: usize) {
        self.counts.reassign(self.lane, lane);
        self.lane = lane;
    }
}

impl Drop for Assignment {
    fn drop(&mut self) {
        self.counts.remove(self.lane);
    }
}
