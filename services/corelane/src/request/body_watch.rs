//! Tracks how long the service has waited for the next bytes of each request body.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use slab::Slab;

/// State of a request body that its reader shares with the lane. The reader may be on any thread,
/// and only the reader changes `waits`.
#[derive(Debug, Default)]
pub(crate) struct BodyWatch {
    /// Incremented when the reader starts and stops waiting: odd while it waits.
    waits: AtomicU32,
    /// Largest size in bytes.
    limit: AtomicU64,
    expired: AtomicBool,
    too_large: AtomicBool,
    /// What the reader dropped of the body before its end.
    dropped: Mutex<Option<hyper::body::Incoming>>,
    reader: AtomicWaker,
}

impl BodyWatch {
    /// The reader starts to wait, or polls again while it waits.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.reader.register(waker);
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits | 1, Ordering::Release);
    }

    /// The reader has received data or an error.
    pub(crate) fn proceed(&self) {
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits.wrapping_add(waits & 1), Ordering::Release);
    }

    /// Whether the next bytes did not come in time.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }

    /// Changes the largest size.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Release);
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// The body exceeds the limit.
    pub(crate) fn set_too_large(&self) {
        self.too_large.store(true, Ordering::Release);
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.too_large.load(Ordering::Acquire)
    }

    /// The reader drops the body before its end.
    pub(crate) fn set_dropped(&self, body: hyper::body::Incoming) {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    /// Takes what the reader dropped.
    pub(crate) fn take_dropped(&self) -> Option<hyper::body::Incoming> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn expire(&self) {
        self.expired.store(true, Ordering::Release);
        self.reader.wake();
    }
}

/// The lane's record of a body.
#[derive(Debug)]
struct Watched {
    watch: Arc<BodyWatch>,
    /// The value of `waits` at the last sweep, and when it was first seen.
    seen: u32,
    since: Instant,
}

/// The request bodies of a connection.
#[derive(Debug, Default)]
pub(crate) struct Bodies(RefCell<Slab<Watched>>);

impl Bodies {
    /// Watches a body of at most `limit` bytes until [`Bodies::forget`] is called with the key.
    pub(crate) fn watch(&self, now: Instant, limit: u64) -> (usize, Arc<BodyWatch>) {
        let watch = Arc::new(BodyWatch { limit: limit.into(), ..BodyWatch::default() });
        let watched = Watched { watch: Arc::clone(&watch), seen: 0, since: now };
        (self.0.borrow_mut().insert(watched), watch)
    }

    pub(crate) fn forget(&self, key: usize) {
        self.0.borrow_mut().remove(key);
    }

    /// Whether a service waits for a body.
    pub(crate) fn is_awaited(&self) -> bool {
        let bodies = self.0.borrow();
        bodies.iter().any(|(_, body)| body.watch.waits.load(Ordering::Acquire) & 1 == 1)
    }

    /// Expires the bodies whose readers have waited for longer than `allowed`, and returns their
    /// number.
    pub(crate) fn expire(&self, allowed: Duration, now: Instant) -> u64 {
        let mut expired = 0;
        for (_, body) in self.0.borrow_mut().iter_mut() {
            let waits = body.watch.waits.load(Ordering::Acquire);
            if waits & 1 == 0 || waits != body.seen {
                (body.seen, body.since) = (waits, now);
            } else if now.saturating_duration_since(body.since) > allowed
                && !body.watch.is_expired()
            {
                body.watch.expire();
                expired += 1;
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_secs(1);

    #[test]
    fn only_a_reader_that_waits_expires() {
        let bodies = Bodies::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (_, watch) = bodies.watch(begun, 1);
        assert_eq!(bodies.expire(ALLOWED, at(10)), 0, "the service does not read");
        watch.wait(Waker::noop());
        assert_eq!(bodies.expire(ALLOWED, at(20)), 0, "first seen waiting");
        watch.proceed();
        watch.wait(Waker::noop());
        assert_eq!(bodies.expire(ALLOWED, at(30)), 0, "waiting again");
        watch.wait(Waker::noop());
        assert!(bodies.is_awaited());
        assert_eq!(bodies.expire(ALLOWED, at(32)), 1, "polled again, without a byte");
        assert!(watch.is_expired());
        assert_eq!(bodies.expire(ALLOWED, at(40)), 0, "counted once");
    }

    #[test]
    fn a_body_that_is_forgotten_is_freed() {
        let bodies = Bodies::default();
        let (key, watch) = bodies.watch(Instant::now(), 1);
        bodies.forget(key);
        assert_eq!(Arc::strong_count(&watch), 1);
        assert!(!bodies.is_awaited());
    }
}
