//! The simulated slow lane: it gets the CPU while its lane sleeps, and a minimum share while the
//! lane is busy.

use corelane::Turns;

use super::Replica;
use super::job::{Heap, Job, next, queue};

/// Interval, in seconds, at which a lane compares its slow lane's CPU time with the share.
const WINDOW: f64 = 5e-3;

#[derive(Debug)]
pub(super) struct SlowModel {
    share: f64,
    turns: Turns<Job>,
    current: Option<(Job, f64)>,
    away: Heap,
    /// Start of the window, and the slow lane's CPU time in it.
    since: f64,
    got: f64,
}

impl SlowModel {
    pub(super) fn new(replica: &Replica) -> Self {
        SlowModel {
            share: replica.slow_share,
            turns: Turns::new(replica.slots, replica.queue),
            current: None,
            away: Heap::default(),
            since: 0.0,
            got: 0.0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.turns.is_full()
    }

    pub(super) fn push(&mut self, now: f64, job: Job) {
        if !self.is_ready(now) {
            (self.since, self.got) = (now, 0.0);
        }
        queue(&self.turns, now, job);
    }

    pub(super) fn is_ready(&self, now: f64) -> bool {
        let waits = self.turns.is_waiting() && self.turns.has_slot();
        self.current.is_some() || waits || self.due().is_some_and(|due| due <= now)
    }

    pub(super) fn due(&self) -> Option<f64> {
        self.away.first()
    }

    /// CPU time that the lane owes its slow lane; settled at the end of each window.
    pub(super) fn owed(&mut self, now: f64) -> f64 {
        let wall = now - self.since;
        if wall < WINDOW {
            return 0.0;
        }
        let owed = self.share * wall - self.got;
        (self.since, self.got) = (now, 0.0);
        if self.is_ready(now) { owed.max(0.0) } else { 0.0 }
    }

    pub(super) fn run(&mut self, now: f64, most: f64) -> (f64, Option<Job>) {
        let mut used = 0.0;
        while used < most {
            let Some((job, left)) = self.current.take().or_else(|| self.next(now + used)) else {
                break;
            };
            let slice = left.min(most - used);
            (used, self.got) = (used + slice, self.got + slice);
            if slice < left {
                self.current = Some((job, left - slice));
            } else if job.wait > 0.0 {
                let rest = Job { lane: job.lane / 2.0, wait: 0.0, ..job };
                self.away.push(now + used + job.wait, rest);
            } else {
                self.turns.end();
                return (used, Some(job));
            }
        }
        (used, None)
    }

    /// Resumes ready handlers before it starts new requests. Before its wait, a request holds the
    /// thread for half of its lane time.
    fn next(&mut self, now: f64) -> Option<(Job, f64)> {
        if self.due().is_some_and(|due| due <= now) {
            return self.away.pop().map(|job| (job, job.lane));
        }
        let job = next(&self.turns)?;
        self.turns.begin();
        Some((job, if job.wait > 0.0 { job.lane / 2.0 } else { job.lane }))
    }
}
