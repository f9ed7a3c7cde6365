//! Jobs waiting for a server's slow lanes.
//!
//! Locks are held only for a few instructions, because a low-priority thread may be preempted while
//! it holds a lock.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::base::clock::Tick;
use crate::base::settings::Limits;
use crate::load::lane::LaneGroup;
use crate::request::queue::{BRIEF, HANDICAP};
use crate::slow::counters::SlowCounters;
use crate::slow::job::{Job, JobPlace};
use crate::slow::settings::SlowLanes;

#[derive(Debug)]
pub(crate) struct SlowQueues {
    pub(crate) settings: SlowLanes,
    queues: Box<[JobQueue]>,
    lanes: Arc<LaneGroup>,
    slots: usize,
    most: usize,
    timeout: Duration,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct JobQueue {
    counters: SlowCounters,
    waiting: Mutex<WaitingJobs>,
    /// Notified when a job arrives, a slot is released, or the queue is closed.
    changed: Notify,
    /// Notifies the lane when its slow lane gets work.
    begun: Notify,
    /// Notifies the lane when its slow lane has exited.
    ended: Notify,
}

#[derive(Debug, Default)]
struct WaitingJobs {
    jobs: BTreeMap<JobPlace, Box<Job>>,
    arrivals: u64,
    state: QueueState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QueueState {
    #[default]
    Open,
    Closed,
    /// The queue does not start any jobs that it still holds.
    Ended,
}

impl JobQueue {
    fn waiting(&self) -> MutexGuard<'_, WaitingJobs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlowQueues {
    pub(crate) fn new(
        settings: SlowLanes,
        lanes: &Arc<LaneGroup>,
        limits: &Limits,
        timeout: Duration,
    ) -> Arc<Self> {
        Arc::new(SlowQueues {
            settings,
            queues: lanes.iter().map(|_| JobQueue::default()).collect(),
            lanes: Arc::clone(lanes),
            slots: limits.slots,
            most: limits.slots.saturating_add(limits.queue),
            timeout,
        })
    }

    pub(crate) fn counters(&self, lane: usize) -> &SlowCounters {
        &self.queues[lane].counters
    }

    /// Queues a job that arrived at `now` for the slow lane of `lane`. Returns the job if it would
    /// wait too long or the slow lane is shutting down.
    pub(crate) fn push(
        self: &Arc<Self>,
        lane: usize,
        job: Box<Job>,
        now: Tick,
    ) -> Result<Ticket, Box<Job>> {
        let (queue, counters) = (&self.queues[lane], self.counters(lane));
        let late = Duration::from_nanos(counters.expected.load(Relaxed)) > self.timeout;
        let (waiting, running) = (counters.waiting.load(Relaxed), counters.running.load(Relaxed));
        if late || (waiting + running) as usize >= self.most {
            return Err(job);
        }
        let (expected, home) = (job.expected, job.home);
        let since = now.later(expected.saturating_mul(HANDICAP));
        let mut inside = queue.waiting();
        if inside.state != QueueState::Open {
            return Err(job);
        }
        inside.arrivals += 1;
        let place = JobPlace { since, arrival: inside.arrivals };
        // Counted before another slow lane can take it.
        counters.waiting.fetch_add(1, Relaxed);
        counters.expected.fetch_add(expected, Relaxed);
        inside.jobs.insert(place, job);
        drop(inside);
        self.counters(home).handed_over.add(1);
        queue.changed.notify_one();
        queue.begun.notify_one();
        if running > 0 {
            self.offer(lane);
        }
        Ok(Ticket { queues: Arc::clone(self), lane, place })
    }

    /// Wakes an idle slow lane of another lane, if any.
    fn offer(&self, lane: usize) {
        let others = (lane + 1..self.queues.len()).chain(0..lane);
        let mut idle = others.filter(|&other| self.counters(other).is_idle());
        if let Some(other) = idle.next() {
            self.queues[other].changed.notify_one();
        }
    }

    fn pop(&self, lane: usize) -> Option<Box<Job>> {
        let counters = self.counters(lane);
        if counters.waiting.load(Relaxed) == 0 {
            return None;
        }
        let (_, job) = self.queues[lane].waiting().jobs.pop_first()?;
        self.forget(lane, &job);
        Some(job)
    }

    fn forget(&self, lane: usize, job: &Job) {
        let counters = self.counters(lane);
        counters.waiting.fetch_sub(1, Relaxed);
        counters.expected.fetch_sub(job.expected, Relaxed);
    }

    /// The next job for a slow lane, with its slot: one of its own jobs, or a job of a lane whose
    /// slow lane is busy.
    pub(crate) fn next(self: &Arc<Self>, lane: usize) -> Option<(Box<Job>, SlowSlot)> {
        let running = self.counters(lane).running.load(Relaxed) as usize;
        if running >= self.slots {
            return None;
        }
        let job = self.pop(lane).or_else(|| self.steal(lane, running))?;
        if job.home != lane {
            self.counters(lane).stolen.add(1);
        }
        let slot = SlowSlot::take(self, lane, job.expected);
        Some((job, slot))
    }

    fn steal(&self, lane: usize, running: usize) -> Option<Box<Job>> {
        if running > 0 || self.state(lane) != QueueState::Open {
            return None;
        }
        let mut others = (lane + 1..self.queues.len()).chain(0..lane);
        let job = others.find_map(|other| {
            let is_busy = self.counters(other).running.load(Relaxed) > 0;
            is_busy.then(|| self.pop(other)).flatten()
        })?;
        self.queues[lane].begun.notify_one();
        Some(job)
    }

    /// Waits until [`SlowQueues::next`] may have a job, or the queue is closed.
    pub(crate) async fn changed(&self, lane: usize) {
        self.queues[lane].changed.notified().await;
    }

    /// Waits until a slow lane receives work.
    pub(crate) async fn begun(&self, lane: usize) {
        self.queues[lane].begun.notified().await;
    }

    /// The slow lane does not get any further jobs and ends once it has finished its own jobs.
    pub(crate) fn close(&self, lane: usize) {
        let queue = &self.queues[lane];
        let mut inside = queue.waiting();
        inside.state = inside.state.max(QueueState::Closed);
        drop(inside);
        queue.changed.notify_one();
    }

    pub(crate) fn end(&self, lane: usize) {
        let queue = &self.queues[lane];
        let mut inside = queue.waiting();
        inside.state = QueueState::Ended;
        let jobs = std::mem::take(&mut inside.jobs);
        drop(inside);
        jobs.values().for_each(|job| self.forget(lane, job));
        queue.changed.notify_one();
        queue.ended.notify_one();
    }

    pub(crate) fn state(&self, lane: usize) -> QueueState {
        self.queues[lane].waiting().state
    }

    pub(crate) async fn closed(&self, lane: usize) {
        while self.state(lane) == QueueState::Open {
            self.changed(lane).await;
        }
    }

    pub(crate) async fn ended(&self, lane: usize) {
        while self.state(lane) != QueueState::Ended {
            self.queues[lane].ended.notified().await;
        }
    }

    /// A lane other than `home` that is idle and has an idle slow lane.
    pub(crate) fn idle_lane(&self, home: usize) -> Option<usize> {
        let now = Instant::now();
        let mut others = (home + 1..self.queues.len()).chain(0..home);
        others.find(|&other| {
            let lane = &self.lanes[other];
            let is_free = lane.metrics.expected.get() < BRIEF && lane.running.get(now).is_none();
            is_free && self.counters(other).is_idle()
        })
    }
}

impl Drop for SlowQueues {
    fn drop(&mut self) {
        // Tickets and slots keep the queues alive, so all of them are gone by now. After a panic,
        // the panic message is enough.
        if thread::panicking() {
            return;
        }
        for (lane, queue) in self.queues.iter().enumerate() {
            queue.counters.check_empty(lane);
            debug_assert!(queue.waiting().jobs.is_empty(), "jobs of slow lane {lane} were lost");
        }
    }
}

#[derive(Debug)]
pub(crate) struct Ticket {
    queues: Arc<SlowQueues>,
    lane: usize,
    place: JobPlace,
}

impl Ticket {
    /// Removes the job if it is still waiting.
    pub(crate) fn withdraw(&self) {
        let job = self.queues.queues[self.lane].waiting().jobs.remove(&self.place);
        if let Some(job) = job {
            self.queues.forget(self.lane, &job);
        }
    }
}

/// A slot of a slow lane, released when dropped.
#[derive(Debug)]
pub(crate) struct SlowSlot {
    queues: Arc<SlowQueues>,
    lane: usize,
    expected: u64,
}

impl SlowSlot {
    fn take(queues: &Arc<SlowQueues>, lane: usize, expected: u64) -> Self {
        let counters = queues.counters(lane);
        counters.running.fetch_add(1, Relaxed);
        counters.expected.fetch_add(expected, Relaxed);
        SlowSlot { queues: Arc::clone(queues), lane, expected }
    }
}

impl Drop for SlowSlot {
    fn drop(&mut self) {
        let counters = self.queues.counters(self.lane);
        counters.running.fetch_sub(1, Relaxed);
        counters.expected.fetch_sub(self.expected, Relaxed);
        self.queues.queues[self.lane].changed.notify_one();
    }
}
