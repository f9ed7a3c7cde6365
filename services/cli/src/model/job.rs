//! Requests in the simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use corelane::Turns;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    /// Its index in the mix.
    pub(super) kind: usize,
    pub(super) counted: bool,
    /// The time of its arrival.
    pub(super) at: f64,
    /// Its lane time, and the time for which it waits without the lane.
    pub(super) lane: f64,
    pub(super) wait: f64,
    /// Its lane time according to the load table.
    pub(super) expected: f64,
    /// Whether it runs on the slow lane.
    pub(super) slow: bool,
}

/// A time and a sequence number, by which the heaps are ordered.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Order(f64, u64);

impl Eq for Order {}

impl PartialOrd for Order {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Order {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// Jobs in order; the smallest is first.
#[derive(Debug, Default)]
pub(super) struct Heap {
    orders: BinaryHeap<Reverse<(Order, usize)>>,
    jobs: Vec<Job>,
    free: Vec<usize>,
    count: u64,
}

impl Heap {
    pub(super) fn push(&mut self, at: f64, job: Job) {
        let place = self.free.pop().unwrap_or(self.jobs.len());
        if place == self.jobs.len() {
            self.jobs.push(job);
        } else {
            self.jobs[place] = job;
        }
        self.orders.push(Reverse((Order(at, self.count), place)));
        self.count += 1;
    }

    /// The time at which the first job is due.
    pub(super) fn first(&self) -> Option<f64> {
        self.orders.peek().map(|Reverse((order, _))| order.0)
    }

    pub(super) fn pop(&mut self) -> Option<Job> {
        let Reverse((_, place)) = self.orders.pop()?;
        self.free.push(place);
        Some(self.jobs[place])
    }
}

/// Converts seconds to nanoseconds.
pub(super) fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// Queues a request.
pub(super) fn queue(turns: &Turns<Job>, now: f64, job: Job) {
    turns.push(nanos(now), nanos(job.expected), job);
}

/// The next request, if one waits and a slot is free.
pub(super) fn next(turns: &Turns<Job>) -> Option<Job> {
    turns.next(|_, has_slot| has_slot.then_some(())).map(|(job, ())| job)
}
