//! Counts objects owned by one thread.

use std::cell::Cell;

/// Each object is added once and subtracted once.
#[derive(Debug, Default)]
pub(crate) struct Tally(Cell<usize>);

impl Tally {
    #[inline]
    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }

    #[inline]
    pub(crate) fn add(&self, n: usize) {
        self.0.set(self.0.get() + n);
    }

    /// Subtracting too much is a bug, but the count must not wrap around to a huge number, because
    /// then all requests would be shed.
    #[inline]
    #[track_caller]
    pub(crate) fn sub(&self, n: usize) {
        debug_assert!(n <= self.0.get(), "{n} of {} were taken away", self.0.get());
        self.0.set(self.0.get().saturating_sub(n));
    }

    /// Resets the count to 0 and returns the previous value.
    pub(crate) fn take(&self) -> usize {
        self.0.take()
    }
}
