//! The current work of a lane, readable by other threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::base::clock::Tick;
use crate::metrics::kind::KindIndex;

/// The request whose handler a lane is polling, and since when. It is one word, so a reader never
/// mixes two requests.
#[derive(Debug)]
pub(crate) struct Running {
    word: AtomicU64,
}

/// Bits for the time in microseconds since the start of the process: enough for 8 years.
const TIME_BITS: u32 = 48;

impl Running {
    pub(crate) fn new() -> Self {
        Running { word: AtomicU64::new(0) }
    }

    /// The lane starts to poll a handler.
    pub(crate) fn begin(&self, kind: KindIndex, now: Tick) {
        let kind = u64::from(kind.bits()) + 1; // 0 is nothing
        self.word.store(kind << TIME_BITS | now.micros() & ((1 << TIME_BITS) - 1), Relaxed);
    }

    /// The poll has ended.
    pub(crate) fn end(&self) {
        self.word.store(0, Relaxed);
    }

    /// The kind of the request that is being polled, and for how long.
    pub(crate) fn get(&self, now: Instant) -> Option<(KindIndex, Duration)> {
        let word = self.word.load(Relaxed);
        let kind = (word >> TIME_BITS).checked_sub(1)?;
        let since = Tick::from_micros(word & ((1 << TIME_BITS) - 1));
        let lasted = Duration::from_nanos(Tick::from(now).since(since));
        Some((KindIndex::from_bits(kind as u16), lasted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_holds_both() {
        let running = Running::new();
        let begun = Instant::now();
        assert_eq!(running.get(begun), None);
        running.begin(KindIndex::from_bits(649), begun.into());
        let (kind, since) = running.get(begun + Duration::from_secs(7)).expect("it runs");
        assert_eq!(kind.bits(), 649);
        // Rounding to microseconds adds up to one.
        assert_eq!(since.as_micros() / 2, 7_000_000 / 2);
        running.end();
        assert_eq!(running.get(begun), None);
    }
}
