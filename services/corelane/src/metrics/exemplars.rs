//! The last traced request in each histogram bucket, which links a latency to a trace.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Exemplar {
    pub(crate) trace: u128,
    pub(crate) seconds: f64,
    /// Seconds since the Unix epoch.
    pub(crate) at: f64,
}

/// One exemplar per bucket. Only the owning lane's thread writes.
#[derive(Debug)]
pub(crate) struct Exemplars<const N: usize>([ExemplarCell; N]);

impl<const N: usize> Default for Exemplars<N> {
    fn default() -> Self {
        Exemplars(std::array::from_fn(|_| ExemplarCell::default()))
    }
}

impl<const N: usize> Exemplars<N> {
    /// Call this only on the owning lane's thread.
    pub(crate) fn put(&self, bucket: usize, trace: [u8; 16], nanos: u64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let trace = u128::from_be_bytes(trace);
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.0[bucket].write([(trace >> 64) as u64, trace as u64, nanos, at]);
    }

    /// `None` if the bucket has no exemplar, or while one is being written.
    pub(crate) fn read(&self, bucket: usize) -> Option<Exemplar> {
        let [high, low, nanos, at] = self.0[bucket].read()?;
        Some(Exemplar {
            trace: u128::from(high) << 64 | u128::from(low),
            seconds: nanos as f64 / 1e9,
            at: at as f64 / 1e3,
        })
    }
}

/// Words that are always read consistently: a sequence lock with one writer.
#[derive(Debug, Default)]
struct ExemplarCell {
    /// Odd during a write, and 0 before the first write.
    version: AtomicU64,
    words: [AtomicU64; 4],
}

impl ExemplarCell {
    fn write(&self, words: [u64; 4]) {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        fence(Release);
        for (word, value) in self.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.version.store(version + 2, Release);
    }

    fn read(&self) -> Option<[u64; 4]> {
        let before = self.version.load(Acquire);
        let words = std::array::from_fn(|index| self.words[index].load(Relaxed));
        fence(Acquire);
        let is_whole = before == self.version.load(Relaxed) && before.is_multiple_of(2);
        (is_whole && before > 0).then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_exemplar_is_read_as_it_was_put() {
        let exemplars = Exemplars::<2>::default();
        assert_eq!(exemplars.read(0), None);
        exemplars.put(1, [0xab; 16], 1_500_000);
        let found = exemplars.read(1).expect("one");
        assert_eq!((found.trace, found.seconds), (u128::from_be_bytes([0xab; 16]), 0.0015));
        assert_eq!(exemplars.read(0), None);
    }

    #[test]
    fn words_of_two_writes_are_not_mixed() {
        let slot = ExemplarCell::default();
        thread::scope(|scope| {
            scope.spawn(|| (1..100_000).for_each(|n| slot.write([n; 4])));
            let mut last = 0;
            while last < 99_999 {
                if let Some(words) = slot.read() {
                    assert_eq!(words, [words[0]; 4]);
                    last = words[0];
                }
            }
        });
    }
}
