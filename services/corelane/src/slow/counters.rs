//! A slow lane's counters, and the wait with which a lane yields to its slow lane.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::Count;
use crate::slow::priority::Priority;

/// All threads can read these counters, which have their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SlowCounters {
    /// Requests that the lane handed over. Written by the lane.
    pub(crate) handed_over: Count,
    /// Requests that this slow lane took over from other lanes. Written by the slow lane.
    pub(crate) stolen: Count,
    pub(crate) waiting: AtomicU64,
    pub(crate) running: AtomicU64,
    pub(crate) expected: AtomicU64,
    priority: AtomicU8,
    /// Whether the slow lane's event loop is not waiting.
    awake: AtomicBool,
    yields: AtomicBool,
    lock: Mutex<()>,
    waits: Condvar,
}

impl SlowCounters {
    pub(crate) fn set_priority(&self, priority: Priority) {
        self.priority.store(priority as u8, Ordering::Relaxed);
    }

    pub(crate) fn priority(&self) -> &'static str {
        Priority::NAMES[usize::from(self.priority.load(Ordering::Relaxed))]
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0 && self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn check_empty(&self, lane: usize) {
        let left = [&self.waiting, &self.running, &self.expected];
        let left = left.map(|number| number.load(Ordering::Relaxed));
        debug_assert_eq!(left, [0; 3], "slow lane {lane}: waiting, running, expected nanoseconds");
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.awake.load(Ordering::Acquire)
    }

    pub(crate) fn wake_up(&self) {
        self.awake.store(true, Ordering::Release);
    }

    pub(crate) fn fall_asleep(&self) {
        self.awake.store(false, Ordering::SeqCst);
        if self.yields.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.waits.notify_all();
        }
    }

    /// Blocks the calling thread, which must be the lane's thread, until the slow lane waits or
    /// `time` has passed.
    pub(crate) fn yield_for(&self, time: Duration) {
        self.yields.store(true, Ordering::SeqCst);
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |_: &mut ()| self.awake.load(Ordering::SeqCst);
        drop(self.waits.wait_timeout_while(guard, time, busy));
        self.yields.store(false, Ordering::SeqCst);
    }
}
