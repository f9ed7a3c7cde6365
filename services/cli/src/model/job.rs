//! Simulated requests.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use corelane::Turns;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) kind: usize,
    pub(super) counted: bool,
    pub(super) at: f64,
    /// Lane time, and time spent waiting off the lane.
    pub(super) lane: f64,
    pub(super) wait: f64,
    pub(super) expected: f64,
    pub(super) slow: bool,
}

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

    pub(super) fn first(&self) -> Option<f64> {
        self.orders.peek().map(|Reverse((order, _))| order.0)
    }

    pub(super) fn pop(&mut self) -> Option<Job> {
        let Reverse((_, place)) = self.orders.pop()?;
        self.free.push(place);
        Some(self.jobs[place])
    }
}

pub(super) fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

pub(super) fn queue(turns: &Turns<Job>, now: f64, job: Job) {
    turns.push(nanos(now), nanos(job.expected), job);
}

pub(super) fn next(turns: &Turns<Job>) -> Option<Job> {
    turns.next(|_, has_slot| has_slot.then_some(())).map(|(job, ())| job)
}
