//! Tracks how long the service has waited for the next bytes of each request body.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use slab::Slab;

use crate::request::finished::Cut;
use crate::request::pace::Pace;

/// Shared by a body's reader and the lane. The reader may be on any thread, and only the reader
/// changes `waits`.
#[derive(Debug, Default)]
pub(crate) struct BodyWatch {
    /// Incremented when the reader starts and when it stops waiting, so the value is odd while the
    /// reader is waiting.
    waits: AtomicU32,
    received: AtomicU64,
    /// Maximum size in bytes.
    limit: AtomicU64,
    expired: AtomicBool,
    slow: AtomicBool,
    too_large: AtomicBool,
    /// The unread rest of the body, if the reader dropped the body before its end.
    dropped: Mutex<Option<hyper::body::Incoming>>,
    reader: AtomicWaker,
}

impl BodyWatch {
    /// Called when the reader starts to wait, and at each poll while it is waiting.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.reader.register(waker);
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits | 1, Ordering::Release);
    }

    /// Called when the reader has received data or an error.
    pub(crate) fn proceed(&self) {
        let waits = self.waits.load(Ordering::Relaxed);
        self.waits.store(waits.wrapping_add(waits & 1), Ordering::Release);
    }

    /// Called when the reader has received bytes.
    pub(crate) fn receive(&self, bytes: u64) {
        self.received.store(self.received.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
    }

    /// The reason why the server abandoned the client, if it did.
    pub(crate) fn cut(&self) -> Option<Cut> {
        let cut = if self.slow.load(Ordering::Acquire) { Cut::SlowBody } else { Cut::BodyTimeout };
        self.is_expired().then_some(cut)
    }

    /// Whether the next bytes failed to arrive in time.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Acquire)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Release);
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    pub(crate) fn set_too_large(&self) {
        self.too_large.store(true, Ordering::Release);
    }

    pub(crate) fn is_too_large(&self) -> bool {
        self.too_large.load(Ordering::Acquire)
    }

    /// Keeps the rest of a body that the reader drops before its end.
    pub(crate) fn set_dropped(&self, body: hyper::body::Incoming) {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
    }

    pub(crate) fn take_dropped(&self) -> Option<hyper::body::Incoming> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn expire(&self) {
        self.expired.store(true, Ordering::Release);
        self.reader.wake();
    }
}

#[derive(Debug)]
struct WatchedBody {
    watch: Arc<BodyWatch>,
    /// `waits` at the last sweep, and the time when a sweep first saw that value.
    seen: u32,
    since: Instant,
    /// The value of `received` at the last sweep, and whether the reader was waiting.
    received: u64,
    waited: bool,
    left: Duration,
    answered: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyPatience {
    /// Maximum wait for the next bytes until the response head is ready. After that, service and
    /// client may communicate at any speed, as in a bidirectional gRPC call.
    pub(crate) allowed: Duration,
    /// Minimum rate, which also applies only until the response head is ready.
    pub(crate) pace: Pace,
    pub(crate) now: Instant,
    pub(crate) passed: Duration,
}

impl WatchedBody {
    /// Whether the client is too slow. Only time during which the service is waiting for the client
    /// counts.
    fn is_slow(&mut self, waits: bool, patience: &BodyPatience) -> bool {
        let received = self.watch.received.load(Ordering::Relaxed);
        let came = received - std::mem::replace(&mut self.received, received);
        let waited = std::mem::replace(&mut self.waited, waits) && waits;
        let passed = if waited { patience.passed } else { Duration::ZERO };
        self.left = patience.pace.spend(self.left, came, passed);
        waited && !self.answered && self.left.is_zero()
    }

    fn is_late(&mut self, waits: u32, patience: &BodyPatience) -> bool {
        if self.answered || waits & 1 == 0 || waits != self.seen {
            (self.seen, self.since) = (waits, patience.now);
        }
        patience.now.saturating_duration_since(self.since) > patience.allowed
    }
}

#[derive(Debug, Default)]
pub(crate) struct Bodies(RefCell<Slab<WatchedBody>>);

impl Bodies {
    /// Watches a body of at most `limit` bytes until [`Bodies::forget`].
    pub(crate) fn watch(&self, now: Instant, limit: u64, pace: Pace) -> (usize, Arc<BodyWatch>) {
        let watch = Arc::new(BodyWatch { limit: limit.into(), ..BodyWatch::default() });
        let watched = WatchedBody {
            watch: Arc::clone(&watch),
            seen: 0,
            since: now,
            received: 0,
            waited: false,
            left: pace.grace(),
            answered: false,
        };
        (self.0.borrow_mut().insert(watched), watch)
    }

    pub(crate) fn forget(&self, key: usize) {
        self.0.borrow_mut().remove(key);
    }

    /// Records that the response head is ready for the request with this body.
    pub(crate) fn set_answered(&self, key: usize) {
        self.0.borrow_mut()[key].answered = true;
    }

    pub(crate) fn is_awaited(&self) -> bool {
        let bodies = self.0.borrow();
        bodies.iter().any(|(_, body)| body.watch.waits.load(Ordering::Acquire) & 1 == 1)
    }

    pub(crate) fn expire(&self, patience: &BodyPatience, mut expired: impl FnMut(Cut)) {
        for (_, body) in self.0.borrow_mut().iter_mut() {
            let waits = body.watch.waits.load(Ordering::Acquire);
            let late = body.is_late(waits, patience);
            let slow = body.is_slow(waits & 1 == 1, patience) && !late;
            if (late || slow) && !body.watch.is_expired() {
                body.watch.slow.store(slow, Ordering::Release);
                body.watch.expire();
                expired(if slow { Cut::SlowBody } else { Cut::BodyTimeout });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_secs(1);

    /// Expires bodies `passed` after the last sweep, and returns the reasons.
    fn expire(bodies: &Bodies, pace: Pace, now: Instant, passed: Duration) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let patience = BodyPatience { allowed: ALLOWED, pace, now, passed };
        bodies.expire(&patience, |cut| cuts.push(cut));
        cuts
    }

    #[test]
    fn only_a_reader_that_waits_before_its_reply_expires() {
        let bodies = Bodies::default();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let any = Pace::new(None, ALLOWED);
        let expired = |seconds| expire(&bodies, any, at(seconds), ALLOWED);
        let (_, watch) = bodies.watch(begun, 1, any);
        assert_eq!(expired(10), [], "the service does not read");
        watch.wait(Waker::noop());
        assert_eq!(expired(20), [], "first seen waiting");
        watch.proceed();
        watch.wait(Waker::noop());
        assert_eq!(expired(30), [], "waiting again");
        watch.wait(Waker::noop());
        assert!(bodies.is_awaited());
        assert_eq!(expired(32), [Cut::BodyTimeout], "polled again, without a byte");
        assert_eq!(watch.cut(), Some(Cut::BodyTimeout));
        assert_eq!(expired(40), [], "counted once");
        let (key, watch) = bodies.watch(at(40), 1, any);
        watch.wait(Waker::noop());
        bodies.set_answered(key);
        assert_eq!(expired(41), [], "first seen waiting");
        assert_eq!(expired(50), [], "answered");
    }

    #[test]
    fn a_body_is_slow_only_while_the_service_waits_for_it_and_has_not_answered() {
        let second = Duration::from_secs(1);
        let pace = Pace::new(Some(100), 10 * second);
        let (begun, bodies) = (Instant::now(), Bodies::default());
        // The client sends a byte per second while the service is waiting, is working, or has
        // responded.
        for (waits, answered, cuts) in
            [(true, false, &[Cut::SlowBody][..]), (false, false, &[]), (true, true, &[])]
        {
            let (key, watch) = bodies.watch(begun, 1, pace);
            if answered {
                bodies.set_answered(key);
            }
            let mut seen = Vec::new();
            for seconds in 1..30 {
                watch.proceed();
                watch.receive(1);
                if waits {
                    watch.wait(Waker::noop());
                }
                seen.extend(expire(&bodies, pace, begun + seconds * second, second));
            }
            assert_eq!(seen, cuts, "waits {waits}, answered {answered}");
            bodies.forget(key);
        }
    }

    #[test]
    fn a_body_that_is_forgotten_is_freed() {
        let bodies = Bodies::default();
        let (key, watch) = bodies.watch(Instant::now(), 1, Pace::new(None, ALLOWED));
        bodies.forget(key);
        assert_eq!(Arc::strong_count(&watch), 1);
        assert!(!bodies.is_awaited());
    }
}
