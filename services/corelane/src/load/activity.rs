//! A lane's activity, for other threads to read: its current work, stalls and blocking calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::base::clock::Tick;
use crate::metrics::kind::KindIndex;
use crate::metrics::{Count, Rows};

/// The request whose handler a lane is polling and the start of the poll, packed into one word so
/// that a reader never mixes two requests.
#[derive(Debug)]
pub(crate) struct Running {
    word: AtomicU64,
}

/// Microseconds since the process started, with enough bits for 8 years.
const TIME_BITS: u32 = 48;

impl Running {
    pub(crate) fn new() -> Self {
        Running { word: AtomicU64::new(0) }
    }

    pub(crate) fn begin(&self, kind: KindIndex, now: Tick) {
        let kind = u64::from(kind.bits()) + 1; // 0 means no request
        self.word
            .store(kind << TIME_BITS | now.micros() & ((1 << TIME_BITS) - 1), Ordering::Relaxed);
    }

    pub(crate) fn rename(&self, kind: KindIndex) {
        let word = self.word.load(Ordering::Relaxed);
        if word != 0 {
            let kind = u64::from(kind.bits()) + 1;
            self.word.store(kind << TIME_BITS | word & ((1 << TIME_BITS) - 1), Ordering::Relaxed);
        }
    }

    pub(crate) fn end(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, now: Instant) -> Option<(KindIndex, Duration)> {
        let word = self.word.load(Ordering::Relaxed);
        let kind = (word >> TIME_BITS).checked_sub(1)?;
        let since = Tick::from_micros(word & ((1 << TIME_BITS) - 1));
        let lasted = Duration::from_nanos(Tick::from(now).since(since));
        Some((KindIndex::from_bits(kind as u16), lasted))
    }
}

/// Route recorded for a stall outside handlers: in a body, in a destructor, or while the lane was
/// preempted.
pub(crate) const NO_ROUTE: &str = "none";

/// A lane's stalls. Only the watchdog writes them.
#[derive(Debug)]
pub(crate) struct Stalls {
    counts: Rows<Count>,
    without_route: Count,
    stalled: Count,
}

impl Stalls {
    pub(crate) fn new(routes: (usize, usize)) -> Self {
        let (without_route, stalled) = Default::default();
        Stalls { counts: Rows::new(routes, 1), without_route, stalled }
    }

    pub(crate) fn of(&self, route: usize) -> u64 {
        self.counts.get(route).map_or(0, Count::get)
    }

    pub(crate) fn without_route(&self) -> u64 {
        self.without_route.get()
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(Count::get).sum::<u64>() + self.without_route.get()
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.get() > 0
    }

    pub(crate) fn begin(&self, kind: Option<KindIndex>) {
        kind.map_or(&self.without_route, |kind| self.counts.at(kind.route())).add(1);
        self.stalled.set(1);
    }

    pub(crate) fn end(&self) {
        self.stalled.set(0);
    }
}

#[derive(Debug, Default)]
pub(crate) struct Calls {
    unfinished: AtomicU64,
    /// Running calls whose futures were dropped.
    abandoned: AtomicU64,
}

impl Calls {
    pub(crate) fn unfinished(&self) -> u64 {
        self.unfinished.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Counts a call unless `allowed` calls are unfinished.
    pub(crate) fn try_begin(&self, allowed: u64) -> bool {
        if self.unfinished.fetch_add(1, Ordering::Relaxed) < allowed {
            return true;
        }
        self.end();
        false
    }

    pub(crate) fn end(&self) {
        self.unfinished.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn abandon(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_abandoned(&self) {
        self.abandoned.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_holds_both() {
        let running = Running::new();
        // The clock starts at its first use, which may be this call.
        Tick::now().micros();
        let begun = Instant::now();
        assert_eq!(running.get(begun), None);
        running.begin(KindIndex::from_bits(649), begun.into());
        let (kind, since) = running.get(begun + Duration::from_secs(7)).expect("it runs");
        assert_eq!(kind.bits(), 649);
        // Rounding adds up to one microsecond.
        assert_eq!(since.as_micros() / 2, 7_000_000 / 2);
        running.rename(KindIndex::from_bits(7));
        let renamed = running.get(begun + Duration::from_secs(7)).expect("it runs");
        assert_eq!((renamed.0.bits(), renamed.1), (7, since));
        running.end();
        running.rename(KindIndex::from_bits(7));
        assert_eq!(running.get(begun), None);
    }
}
