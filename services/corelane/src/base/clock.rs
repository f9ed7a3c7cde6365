//! The clock for request timing.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Monotonic time in nanoseconds, in one word. An [`Instant`] takes two words, and subtracting it
/// costs several times as many instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

/// The same moment on both clocks, which the kernel derives from the same source.
static EPOCH: LazyLock<(Instant, Tick)> = LazyLock::new(|| {
    loop {
        let (before, instant, after) = (Tick::now(), Instant::now(), Tick::now());
        // A longer time means that the thread was preempted between the two reads, which would make
        // the clocks differ permanently.
        if after.since(before) < 10_000 {
            return (instant, before);
        }
    }
});

impl Tick {
    pub(crate) fn now() -> Tick {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
        // Fails only if the kernel lacks the clock (clock_gettime(2)).
        Tick(now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64))
    }

    /// CPU time of the calling thread in nanoseconds. Makes a system call.
    pub(crate) fn of_thread() -> u64 {
        let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
    }

    pub(crate) fn nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds since `earlier`, or 0 if `earlier` is later.
    pub(crate) fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn later(self, nanos: u64) -> Tick {
        Tick(self.0.saturating_add(nanos))
    }

    /// Whole microseconds since the first use of the clock in this process.
    pub(crate) fn micros(self) -> u64 {
        self.since(EPOCH.1) / 1000
    }

    pub(crate) fn from_micros(micros: u64) -> Tick {
        EPOCH.1.later(micros.saturating_mul(1000))
    }
}

impl From<Instant> for Tick {
    fn from(instant: Instant) -> Tick {
        let (origin, tick) = *EPOCH;
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        match instant.checked_duration_since(origin) {
            Some(after) => tick.later(nanos(after)),
            None => Tick(tick.0.saturating_sub(nanos(origin - instant))),
        }
    }
}

impl From<Tick> for Instant {
    fn from(tick: Tick) -> Instant {
        let (origin, epoch) = *EPOCH;
        let before = Duration::from_nanos(epoch.since(tick));
        origin.checked_sub(before).unwrap_or(origin) + Duration::from_nanos(tick.since(epoch))
    }
}

/// Whole milliseconds, rounded up, for durations of at most 49 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Millis(u32);

impl Millis {
    pub(crate) const MAX: Millis = Millis(u32::MAX);
}

impl From<Duration> for Millis {
    fn from(duration: Duration) -> Self {
        Millis(u32::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX))
    }
}

impl From<Millis> for Duration {
    fn from(Millis(millis): Millis) -> Self {
        Duration::from_millis(millis.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_are_one() {
        let (first, tick, last) = (Instant::now(), Tick::now(), Instant::now());
        // Maximum time between the two reads of the epoch.
        let apart = Duration::from_micros(10);
        assert!(Instant::from(tick) + apart > first && Instant::from(tick) < last + apart);
        assert_eq!(Tick::from(Instant::from(tick)), tick);
        assert_eq!(tick.later(5).since(tick), 5);
        assert!(tick.later(999).since(Tick::from_micros(tick.micros())) < 2000);
        assert_eq!(tick.since(tick.later(5)), 0);
    }
}
