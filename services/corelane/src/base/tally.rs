//! Counts the objects that one thread has.

use std::cell::Cell;

/// A number of current objects. Each is added once and subtracted once.
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

    /// Subtracting more than the count is a bug. It must not turn into a huge number, which would
    /// shed all requests.
    #[inline]
    #[track_caller]
    pub(crate) fn sub(&self, n: usize) {
        debug_assert!(n <= self.0.get(), "{n} of {} were taken away", self.0.get());
        self.0.set(self.0.get().saturating_sub(n));
    }

    /// Resets the count to 0, and returns the previous count.
    pub(crate) fn take(&self) -> usize {
        self.0.take()
    }
}
