//! Counters of a slow lane, and how its lane yields to it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::Count;
use crate::slow::priority::Priority;

/// The counters of a slow lane, readable by all threads, on their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SlowCounters {
    /// Number of requests that the lane handed over. Written by the lane.
    pub(crate) handed_over: Count,
    /// Number of requests that the slow lane took over from other lanes. Written by the slow lane.
    pub(crate) stolen: Count,
    /// Number of the lane's requests that wait.
    pub(crate) waiting: AtomicU64,
    /// Number of requests that run on the slow lane.
    pub(crate) running: AtomicU64,
    /// Expected time of waiting and running requests in nanoseconds.
    pub(crate) expected: AtomicU64,
    priority: AtomicU8,
    /// Whether the slow lane's event loop is not waiting.
    awake: AtomicBool,
    /// Whether the lane waits for the slow lane.
    yields: AtomicBool,
    lock: Mutex<()>,
    waits: Condvar,
}

impl SlowCounters {
    pub(crate) fn set_priority(&self, priority: Priority) {
        self.priority.store(priority as u8, Ordering::Relaxed);
    }

    /// How the thread's priority is lowered.
    pub(crate) fn priority(&self) -> &'static str {
        Priority::NAMES[usize::from(self.priority.load(Ordering::Relaxed))]
    }

    /// Whether the slow lane has no requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0 && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Asserts that nothing waits, runs or is expected.
    pub(crate) fn check_empty(&self, lane: usize) {
        let left = [&self.waiting, &self.running, &self.expected];
        let left = left.map(|number| number.load(Ordering::Relaxed));
        debug_assert_eq!(left, [0; 3], "slow lane {lane}: waiting, running, expected nanoseconds");
    }

    /// Whether the slow lane's event loop has work.
    pub(crate) fn is_awake(&self) -> bool {
        self.awake.load(Ordering::Acquire)
    }

    /// Records that the slow lane's event loop stops waiting.
    pub(crate) fn wake_up(&self) {
        self.awake.store(true, Ordering::Release);
    }

    /// Records that the slow lane's event loop begins to wait.
    pub(crate) fn fall_asleep(&self) {
        self.awake.store(false, Ordering::SeqCst);
        if self.yields.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.waits.notify_all();
        }
    }

    /// Blocks the calling thread, which must be the lane's, until the slow lane waits, for at most
    /// `time`.
    pub(crate) fn yield_for(&self, time: Duration) {
        self.yields.store(true, Ordering::SeqCst);
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |_: &mut ()| self.awake.load(Ordering::SeqCst);
        drop(self.waits.wait_timeout_while(guard, time, busy));
        self.yields.store(false, Ordering::SeqCst);
    }
}
