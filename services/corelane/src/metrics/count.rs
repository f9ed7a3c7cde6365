//! Single-writer numbers and per-route tables of them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A single-writer number: a plain load and store, without the lock prefix of `fetch_add`.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Call this only on the owning lane's thread.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Call this only on the owning lane's thread.
    #[track_caller]
    pub(crate) fn sub(&self, n: u64) {
        let before = self.0.load(Relaxed);
        debug_assert!(n <= before, "{n} of {before} were taken away");
        self.0.store(before.saturating_sub(n), Relaxed);
    }

    /// Call this only on the owning lane's thread.
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A table with one row per route. The rows for all learnt routes are allocated when the first
/// route is learnt, so services without learnt routes pay nothing.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    first: Box<[T]>,
    more: OnceLock<Box<[T]>>,
    most: usize,
}

impl<T: Default> Rows<T> {
    pub(crate) fn new((first, more): (usize, usize), each: usize) -> Self {
        Rows { first: rows(first * each), more: OnceLock::new(), most: more * each }
    }

    #[inline]
    pub(crate) fn at(&self, index: usize) -> &T {
        match self.first.get(index) {
            Some(row) => row,
            None => self.of_learnt(index),
        }
    }

    fn of_learnt(&self, index: usize) -> &T {
        &self.more.get_or_init(|| rows(self.most))[index - self.first.len()]
    }

    /// `None` if the row is not allocated yet.
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let more = || self.more.get()?.get(index.checked_sub(self.first.len())?);
        self.first.get(index).or_else(more)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(self.more.get().into_iter().flatten())
    }
}

fn rows<T: Default>(n: usize) -> Box<[T]> {
    (0..n).map(|_| T::default()).collect()
}
