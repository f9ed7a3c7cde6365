//! The slow lane in the simulation: it has the CPU while its lane sleeps, and a minimum share of it
//! while the lane does not sleep.

use corelane::Turns;

use super::Replica;
use super::job::{Heap, Job, next, queue};

/// Interval in seconds at which a lane compares its slow lane's CPU time with its share.
const WINDOW: f64 = 5e-3;

/// Requests that run at lower priority on the CPU of a lane.
#[derive(Debug)]
pub(super) struct SlowModel {
    share: f64,
    turns: Turns<Job>,
    /// The request that has the thread, and the time that it still needs.
    current: Option<(Job, f64)>,
    /// Handlers that wait without the thread.
    away: Heap,
    /// Start of the window, and the CPU time since then.
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

    /// Whether it accepts no more requests.
    pub(super) fn is_full(&self) -> bool {
        self.turns.is_full()
    }

    pub(super) fn push(&mut self, now: f64, job: Job) {
        if !self.is_ready(now) {
            (self.since, self.got) = (now, 0.0);
        }
        queue(&self.turns, now, job);
    }

    /// Whether it would run if it had the CPU.
    pub(super) fn is_ready(&self, now: f64) -> bool {
        let waits = self.turns.is_waiting() && self.turns.has_slot();
        self.current.is_some() || waits || self.due().is_some_and(|due| due <= now)
    }

    /// The time at which a handler's wait ends.
    pub(super) fn due(&self) -> Option<f64> {
        self.away.first()
    }

    /// CPU time that the lane owes the slow lane now, at the end of each window.
    pub(super) fn owed(&mut self, now: f64) -> f64 {
        let wall = now - self.since;
        if wall < WINDOW {
            return 0.0;
        }
        let owed = self.share * wall - self.got;
        (self.since, self.got) = (now, 0.0);
        if self.is_ready(now) { owed.max(0.0) } else { 0.0 }
    }

    /// Runs for at most this time, until a request ends. Returns the used time and that request.
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

    /// What runs next, and for how long: a handler whose wait has ended, else the next request. A
    /// request whose handler waits first holds the thread for half of its lane time.
    fn next(&mut self, now: f64) -> Option<(Job, f64)> {
        if self.due().is_some_and(|due| due <= now) {
            return self.away.pop().map(|job| (job, job.lane));
        }
        let job = next(&self.turns)?;
        self.turns.begin();
        Some((job, if job.wait > 0.0 { job.lane / 2.0 } else { job.lane }))
    }
}
