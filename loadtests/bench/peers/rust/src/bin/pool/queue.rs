//! The shared queue: first in, first out.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// A queue for many producers and consumers.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    waiting: Mutex<VecDeque<T>>,
    added: Condvar,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        Queue { waiting: Mutex::new(VecDeque::new()), added: Condvar::new() }
    }

    /// Adds to the end, and wakes one waiting thread.
    pub(crate) fn push(&self, item: T) {
        // A panic while the lock is held leaves the queue valid.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(item);
        self.added.notify_one();
    }

    /// Takes from the front, and waits while the queue is empty.
    pub(crate) fn pop(&self) -> T {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(item) = waiting.pop_front() {
                return item;
            }
            waiting = self.added.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_came_first_goes_first() {
        let queue = Queue::new();
        (0..1000).for_each(|number| queue.push(number));
        assert!((0..1000).all(|number| queue.pop() == number));
    }

    #[test]
    fn who_waits_is_woken() {
        let (queue, sums) = (Queue::new(), Queue::new());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| sums.push((0..25).map(|_| queue.pop()).sum::<u64>()));
            }
            (0..100).for_each(|number| queue.push(number));
        });
        assert_eq!((0..4).map(|_| sums.pop()).sum::<u64>(), 4950);
    }
}
