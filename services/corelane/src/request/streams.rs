//! The HTTP/2 streams of a lane that wait for their clients.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;

use crate::request::exchanges::Exchange;

/// The last step of a stream's poll on the body of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyStep {
    /// It gave bytes to hyper, which keeps them until the client's window accepts them.
    Gave,
    /// The service has no data for now.
    Waits,
    /// There is no body: another protocol uses the stream.
    Upgraded,
}

/// A stream whose client must accept bytes before it can continue.
#[derive(Debug, Default)]
struct Stalled {
    /// Set by the sweep that saw it first.
    since: Cell<Option<Instant>>,
    expired: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// All streams of a lane that wait for their clients.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    stalled: RefCell<Slab<Rc<Stalled>>>,
    /// Set by the reply's body for the task that polls it.
    step: Cell<Option<BodyStep>>,
    /// Set by a reply that accepts an extended CONNECT, for the task that hyper starts for its
    /// output in the same poll.
    upgrade: RefCell<Option<Box<Exchange>>>,
}

impl Streams {
    /// The body of a reply was polled.
    pub(crate) fn note(&self, step: BodyStep) {
        self.step.set(Some(step));
    }

    /// Resets the streams whose clients have accepted nothing for longer than `allowed`.
    /// Returns their number.
    pub(crate) fn expire(&self, allowed: Duration, now: Instant) -> u64 {
        let mut expired = 0;
        for (_, stalled) in self.stalled.borrow().iter() {
            let since = stalled.since.get().unwrap_or(now);
            stalled.since.set(Some(since));
            if now.saturating_duration_since(since) > allowed && !stalled.expired.replace(true) {
                expired += 1;
                if let Some(waker) = stalled.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
        expired
    }

    /// A stream's task is about to be polled.
    pub(crate) fn begin_poll(&self) {
        self.step.set(None);
    }

    /// The stream of the reply that is being made is upgraded.
    pub(crate) fn set_upgrade(&self, exchange: Box<Exchange>) {
        self.step.set(Some(BodyStep::Upgraded));
        self.upgrade.replace(Some(exchange));
    }

    /// The upgrade that the task to be started serves, if it is the output of one.
    pub(crate) fn take_upgrade(&self) -> Option<Box<Exchange>> {
        let upgraded = self.step.get() == Some(BodyStep::Upgraded);
        if upgraded { self.upgrade.take() } else { None }
    }

    /// A stream's task was polled for the last time.
    pub(crate) fn end_poll(&self) {
        if self.step.get() == Some(BodyStep::Upgraded) {
            self.step.set(None);
            // Still there if hyper reset the stream instead.
            self.upgrade.take();
        }
    }

    /// The last step of the poll on the body of the reply, if there was one.
    pub(crate) fn take_step(&self) -> Option<BodyStep> {
        self.step.take()
    }
}

/// A stream that waits among those of its lane, removed when dropped.
#[derive(Debug)]
pub(crate) struct StalledStream {
    streams: Rc<Streams>,
    stalled: Rc<Stalled>,
    key: usize,
}

impl StalledStream {
    pub(crate) fn new(streams: &Rc<Streams>) -> Self {
        let stalled = Rc::new(Stalled::default());
        let key = streams.stalled.borrow_mut().insert(Rc::clone(&stalled));
        StalledStream { streams: Rc::clone(streams), stalled, key }
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.stalled.expired.get()
    }

    /// Sets the task to wake when it expires.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        self.stalled.waker.replace(Some(waker.clone()));
    }
}

impl Drop for StalledStream {
    fn drop(&mut self) {
        self.streams.stalled.borrow_mut().remove(self.key);
    }
}
