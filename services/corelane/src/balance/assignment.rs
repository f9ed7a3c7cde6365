//! Number of connections that the acceptor has assigned to each lane (least-loaded placement).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that wait for each lane or are open on it.
#[derive(Debug)]
pub(crate) struct Assignments(Vec<AlignedCount>);

/// A counter on its own cache lines.
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

    /// Moves one connection from one lane to another.
    pub(crate) fn reassign(&self, from: usize, to: usize) {
        self.remove(from);
        self.add(to);
    }
}

/// A connection's assignment to a lane, which [`Assignments::add`] counted. Released when dropped.
#[derive(Debug)]
pub(crate) struct Assignment {
    counts: Arc<Assignments>,
    lane: usize,
}

impl Assignment {
    pub(crate) fn new(counts: &Arc<Assignments>, lane: usize) -> Self {
        Assignment { counts: Arc::clone(counts), lane }
    }

    /// Moves to another lane together with its connection.
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
