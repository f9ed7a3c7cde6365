//! A simulated lane: its event loop in simulated time, around the queue that a real lane uses.
//!
//! The event loop polls its sockets and reads each request that has arrived, which then starts or
//! waits for its turn. Once all of them have been read, one waiting request gets its turn and the
//! loop polls again. The loop sleeps if there is nothing to do. Slow kinds go to the slow lane,
//! which responds through the lane.

use std::collections::VecDeque;

use super::Replica;
use super::job::{Heap, Job, nanos, next, queue};
use super::slow::SlowModel;
use corelane::Turns;

#[derive(Clone, Copy, Debug)]
enum Task {
    Read(Job),
    Resume(Job),
    Answer(Job),
}

#[derive(Debug)]
pub(super) struct LaneModel {
    /// Cost of a request before its handler runs, and again after the handler.
    half_outside: f64,
    wake: f64,
    now: f64,
    pub(super) asleep: f64,
    /// Seconds of work that has arrived but is not done.
    backlog: f64,
    /// Requests that have not been read yet.
    sockets: VecDeque<Job>,
    ready: VecDeque<Task>,
    /// Handlers waiting off the lane.
    away: Heap,
    turns: Turns<Job>,
    slow: SlowModel,
    /// True after a request has had its turn, so the loop polls the sockets next.
    to_look: bool,
}

impl LaneModel {
    pub(super) fn new(replica: &Replica) -> Self {
        LaneModel {
            half_outside: replica.outside / 2.0,
            wake: replica.wake,
            now: 0.0,
            asleep: 0.0,
            backlog: 0.0,
            sockets: VecDeque::new(),
            ready: VecDeque::new(),
            away: Heap::default(),
            turns: Turns::new(replica.slots, replica.queue),
            slow: SlowModel::new(replica),
            to_look: false,
        }
    }

    pub(super) fn arrive(&mut self, job: Job) {
        self.backlog += self.work(&job);
        self.sockets.push_back(job);
    }

    pub(super) fn left(&self, at: f64) -> f64 {
        self.backlog + (self.now - at).max(0.0)
    }

    fn work(&self, job: &Job) -> f64 {
        job.lane + 2.0 * self.half_outside
    }

    /// Runs until `until`. All arrivals up to that time must be known. Appends each finished
    /// request with its end time, or with `None` if it was shed.
    pub(super) fn run_until(&mut self, until: f64, finished: &mut Vec<(Job, Option<f64>)>) {
        while self.now < until {
            self.give_way();
            if std::mem::take(&mut self.to_look) {
                self.look();
            }
            if let Some(task) = self.ready.pop_front() {
                self.act(task, finished);
            } else if let Some(job) = next(&self.turns) {
                self.start(job, finished);
                self.to_look = true;
            } else {
                self.look();
                if self.ready.is_empty() && !self.sleep(until) {
                    return;
                }
            }
        }
    }

    fn look(&mut self) {
        while let Some(job) = self.sockets.front().copied().filter(|job| job.at <= self.now) {
            self.sockets.pop_front();
            self.ready.push_back(Task::Read(job));
        }
        while self.away.first().is_some_and(|due| due <= self.now) {
            self.ready.extend(self.away.pop().map(Task::Resume));
        }
    }

    fn give_way(&mut self) {
        let end = self.now + self.slow.owed(self.now);
        while self.now < end && self.slow.is_ready(self.now) {
            self.lower(end);
        }
    }

    fn lower(&mut self, until: f64) {
        let (used, ended) = self.slow.run(self.now, until - self.now);
        self.spend(used);
        self.ready.extend(ended.map(Task::Answer));
    }

    /// Returns whether the sleep was interrupted before `until`.
    fn sleep(&mut self, until: f64) -> bool {
        let socket = self.sockets.front().map(|job| job.at);
        let next = [socket, self.away.first()].into_iter().flatten().min_by(f64::total_cmp);
        if self.slow.is_ready(self.now) {
            self.lower(next.map_or(until, |next| next.min(until)));
            // A response or an arrival interrupts the sleep.
            if self.ready.is_empty() && next.is_none_or(|next| self.now < next) {
                return self.now < until;
            }
            self.look();
            self.now += self.wake;
            return true;
        }
        let next = [next, self.slow.due()].into_iter().flatten().min_by(f64::total_cmp);
        let Some(next) = next.filter(|next| *next < until) else { return false };
        self.asleep += next - self.now;
        self.now = next;
        self.look();
        self.now += self.wake;
        true
    }

    fn act(&mut self, task: Task, finished: &mut Vec<(Job, Option<f64>)>) {
        match task {
            Task::Read(job) => self.read(job, finished),
            Task::Resume(job) => self.end(job, job.lane / 2.0, finished),
            Task::Answer(job) => {
                self.spend(self.half_outside);
                finished.push((job, Some(self.now)));
            }
        }
    }

    fn read(&mut self, job: Job, finished: &mut Vec<(Job, Option<f64>)>) {
        self.spend(self.half_outside);
        if job.slow && self.slow.is_full() {
            self.shed(job, finished);
        } else if job.slow {
            self.slow.push(self.now, job);
        } else if self.turns.may_start(nanos(job.expected)) {
            self.start(job, finished);
        } else if self.turns.is_full() {
            self.shed(job, finished);
        } else {
            queue(&self.turns, self.now, job);
        }
    }

    fn shed(&mut self, job: Job, finished: &mut Vec<(Job, Option<f64>)>) {
        self.spend(self.half_outside);
        self.backlog -= job.lane;
        finished.push((job, None));
    }

    /// A handler that waits holds the lane for half of its lane time before the wait.
    fn start(&mut self, job: Job, finished: &mut Vec<(Job, Option<f64>)>) {
        self.turns.begin();
        if job.wait > 0.0 {
            self.spend(job.lane / 2.0);
            self.away.push(self.now + job.wait, job);
        } else {
            self.end(job, job.lane, finished);
        }
    }

    fn end(&mut self, job: Job, rest: f64, finished: &mut Vec<(Job, Option<f64>)>) {
        self.spend(rest);
        self.turns.end();
        self.spend(self.half_outside);
        finished.push((job, Some(self.now)));
    }

    fn spend(&mut self, seconds: f64) {
        self.now += seconds;
        self.backlog -= seconds;
    }
}
