//! The streams of HTTP/2 connections. Each is a separate task. It waits while its client accepts no
//! data, because the window of one stream may stay closed while other streams of the connection
//! continue.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use slab::Slab;
use tokio::task::spawn_local;

use crate::lane::LaneState;
use crate::metrics::Refusal;

/// Runs the streams of one connection on its lane.
#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor {
    pub(crate) lane: Rc<LaneState>,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + 'static,
{
    fn execute(&self, future: F) {
        spawn_local(StreamTask { future, stalled: None, lane: Rc::clone(&self.lane) });
    }
}

/// The last step of a stream's poll on the body of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyStep {
    /// It gave bytes to hyper, which keeps them until the client's window accepts them.
    Gave,
    /// The service has no data for now.
    Waits,
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
}

impl Streams {
    /// The body of a reply was polled.
    pub(crate) fn note(&self, step: BodyStep) {
        self.step.set(Some(step));
    }

    /// Resets the streams whose clients have accepted nothing for longer than the lane allows.
    pub(crate) fn expire(&self, lane: &LaneState, now: Instant) {
        for (_, stalled) in self.stalled.borrow().iter() {
            let since = stalled.since.get().unwrap_or(now);
            stalled.since.set(Some(since));
            if now.saturating_duration_since(since) > lane.timeouts.write
                && !stalled.expired.replace(true)
            {
                lane.metrics().refuse(Refusal::WriteTimeout);
                if let Some(waker) = stalled.waker.borrow_mut().take() {
                    waker.wake();
                }
            }
        }
    }
}

/// The entry of a stream that waits, removed when dropped.
struct Entry {
    lane: Rc<LaneState>,
    stalled: Rc<Stalled>,
    key: usize,
}

impl Entry {
    fn new(lane: &Rc<LaneState>) -> Self {
        let stalled = Rc::new(Stalled::default());
        let key = lane.streams.stalled.borrow_mut().insert(Rc::clone(&stalled));
        Entry { lane: Rc::clone(lane), stalled, key }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.lane.streams.stalled.borrow_mut().remove(self.key);
    }
}

pin_project! {
    /// A hyper stream. Dropping it early resets the stream (RFC 9113 section 8.7, CANCEL), which
    /// frees hyper's part of its reply.
    struct StreamTask<F> {
        #[pin]
        future: F,
        stalled: Option<Entry>,
        lane: Rc<LaneState>,
    }
}

impl<F: Future> Future for StreamTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.stalled.as_ref().is_some_and(|entry| entry.stalled.expired.get()) {
            return Poll::Ready(());
        }
        this.lane.streams.step.set(None);
        let polled = this.future.poll(cx);
        if polled.is_ready() {
            return Poll::Ready(());
        }
        match this.lane.streams.step.take() {
            // More bytes were handed over, so the client has accepted some.
            Some(BodyStep::Gave) => *this.stalled = Some(Entry::new(this.lane)),
            Some(BodyStep::Waits) => *this.stalled = None,
            None => {}
        }
        if let Some(entry) = this.stalled {
            entry.stalled.waker.replace(Some(cx.waker().clone()));
        }
        Poll::Pending
    }
}
