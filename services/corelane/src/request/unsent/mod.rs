//! Counters and limits for response bytes that are waiting for clients.
//!
//! The memory of a response is counted from the time when the service hands it over until the
//! socket or the client's window accepts it. If an HTTP/2 connection exceeds its limit, its
//! response bodies are not polled. Above the process limit, new requests are shed.

mod sending;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
pub(crate) use sending::{Patience, Piece, Sending};

use crate::base::settings::Limits;
use crate::base::tally::Tally;
use crate::load::lane::Lane;

/// Larger response parts are counted only if they are not shared: a shared part may be the only
/// copy of data that the service keeps.
const SHARED: usize = 256 * 1024;

/// Responses up to this size do not have to wait for room on their connection. They are about as
/// small as the state of a request and may be urgent.
const SMALL: u64 = 16 * 1024;

/// Maximum time for which a client may read nothing while the process is above its limit.
pub(crate) const CROWDED: Duration = Duration::from_secs(5);

/// The unsent bytes of a lane.
pub(crate) struct LaneUnsent {
    lane: Lane,
    limit: u64,
    /// Below this threshold, the lane need not know the unsent bytes of other lanes.
    floor: u64,
    of_connection: usize,
}

impl LaneUnsent {
    pub(crate) fn new(lane: Lane, limits: &Limits) -> Rc<Self> {
        let floor = limits.unsent_bytes / (8 * lane.lanes.len().max(1) as u64);
        let of_connection = limits.unsent_connection_bytes;
        Rc::new(LaneUnsent { lane, limit: limits.unsent_bytes, floor, of_connection })
    }

    fn hold(&self, bytes: usize) {
        self.lane.shared().metrics.unsent.add(bytes as u64);
    }

    fn release(&self, bytes: usize) {
        self.lane.shared().metrics.unsent.sub(bytes as u64);
    }

    /// Whether the responses of all lanes exceed the process limit.
    #[inline]
    pub(crate) fn is_above_limit(&self) -> bool {
        self.lane.shared().metrics.unsent.get() > self.floor
            && self.lane.lanes.unsent() > self.limit
    }
}

impl fmt::Debug for LaneUnsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneUnsent").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Number of bytes to count for a response part.
pub(crate) fn counted(part: &Bytes) -> usize {
    if part.len() <= SHARED || part.is_unique() { part.len() } else { 0 }
}

/// A plain response part that the socket did not accept, counted until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    lane: Rc<LaneUnsent>,
    bytes: usize,
}

impl Held {
    pub(crate) fn new(lane: &Rc<LaneUnsent>, bytes: usize) -> Self {
        lane.hold(bytes);
        Held { lane: Rc::clone(lane), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lane.release(self.bytes);
    }
}

/// The unsent bytes of a connection served by hyper.
#[derive(Debug)]
pub(crate) struct Unsent {
    lane: Rc<LaneUnsent>,
    bytes: Tally,
    /// Bytes that services are producing, in parts that began since the last sweep or in the
    /// interval before it. Older parts are not counted, because some services take a long time.
    expected: Tally,
    expected_before: Tally,
    sweeps: Cell<u32>,
    /// Responses with unsent bytes.
    replies: Tally,
    /// Whether the socket accepts no data at all, in which case no single stream is to blame.
    is_blocked: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Unsent {
    pub(crate) fn new(lane: &Rc<LaneUnsent>) -> Rc<Self> {
        Rc::new(Unsent {
            lane: Rc::clone(lane),
            bytes: Tally::default(),
            expected: Tally::default(),
            expected_before: Tally::default(),
            sweeps: Cell::new(0),
            replies: Tally::default(),
            is_blocked: Cell::new(false),
            waiting: RefCell::default(),
        })
    }

    /// Whether the connection has unsent bytes.
    pub(crate) fn is_any(&self) -> bool {
        self.bytes.get() > 0
    }

    pub(crate) fn sweep(&self, is_blocked: bool) {
        self.is_blocked.set(is_blocked);
        self.sweeps.set(self.sweeps.get().wrapping_add(1));
        self.expected_before.take();
        self.expected_before.add(self.expected.take());
        self.wake_waiting();
    }

    /// Unsent bytes plus bytes that services are producing.
    fn taken(&self) -> usize {
        self.bytes.get() + self.expected.get() + self.expected_before.get()
    }

    fn hold(&self, bytes: usize) {
        self.lane.hold(bytes);
        self.bytes.add(bytes);
    }

    fn release(&self, bytes: usize) {
        self.lane.release(bytes);
        self.bytes.sub(bytes);
        self.wake_waiting();
    }

    /// Level below which streams are woken. It is lower than the limit, so that a single accepted
    /// byte does not wake all streams.
    fn low(&self) -> usize {
        self.lane.of_connection - self.lane.of_connection / 4
    }

    fn wake_waiting(&self) {
        if self.taken() <= self.low() && !self.waiting.borrow().is_empty() {
            mem::take(&mut *self.waiting.borrow_mut()).into_iter().for_each(Waker::wake);
        }
    }

    /// Whether a response that has `length` bytes left may hand over more.
    fn poll_room(&self, length: Option<u64>, cx: &Context<'_>) -> Poll<()> {
        let (bytes, bound) = (self.taken(), self.lane.of_connection);
        let is_small = length.is_some_and(|length| length <= SMALL);
        if bytes < bound || (is_small && bytes < bound.saturating_mul(2)) {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        debug_assert_eq!(self.bytes.get(), 0, "unsent bytes were lost");
    }
}
