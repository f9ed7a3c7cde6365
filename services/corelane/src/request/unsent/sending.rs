//! Response parts in transit to clients.

use std::cell::{Cell, RefCell};
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};

use super::{CROWDED, SMALL, Unsent, counted};
use crate::base::tally::Tally;
use crate::request::finished::Cut;
use crate::request::pace::Pace;

/// Assumed size of a part that the service is still producing.
const EXPECTED: usize = 64 * 1024;

/// An HTTP/2 stream's response while it is being sent. From hyper's point of view, the stream may
/// already have ended.
#[derive(Debug)]
pub(crate) struct Sending {
    connection: Rc<Unsent>,
    held: Tally,
    accepted: Cell<u64>,
    is_waiting: Cell<bool>,
    /// Bytes that the service is producing, and the connection's sweep count when it began
    /// producing them.
    making: Cell<Option<(usize, u32)>>,
    /// The time since which the client has accepted nothing, and how long the client may stay slow.
    /// Set by the sweep.
    since: Cell<Option<Instant>>,
    left: Cell<Duration>,
    cut: Cell<Option<Cut>>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) write: Duration,
    pub(crate) pace: Pace,
    pub(crate) is_crowded: bool,
    pub(crate) now: Instant,
    pub(crate) passed: Duration,
}

impl Sending {
    pub(crate) fn new(connection: &Rc<Unsent>) -> Rc<Self> {
        Rc::new(Sending {
            connection: Rc::clone(connection),
            held: Tally::default(),
            accepted: Cell::new(0),
            is_waiting: Cell::new(false),
            making: Cell::new(None),
            since: Cell::new(None),
            left: Cell::default(),
            cut: Cell::new(None),
            waker: RefCell::default(),
        })
    }

    /// Whether the service may produce more, given that `length` more bytes have been announced. A
    /// part that the service has begun already uses memory, so the service may finish that part.
    pub(crate) fn poll_room(&self, length: Option<u64>, cx: &Context<'_>) -> Poll<()> {
        if self.making.get().is_some() {
            return Poll::Ready(());
        }
        let room = self.connection.poll_room(length, cx);
        self.is_waiting.set(room.is_pending());
        room
    }

    /// `length` is the number of bytes that have not been produced yet.
    pub(crate) fn begin_part(&self, length: Option<u64>) {
        if self.making.get().is_some() {
            return;
        }
        // A response of unknown length may be waiting for an event.
        let long = length.filter(|&length| length > SMALL);
        let bytes =
            long.map_or(0, |length| EXPECTED.min(usize::try_from(length).unwrap_or(EXPECTED)));
        self.connection.expected.add(bytes);
        self.making.set(Some((bytes, self.connection.sweeps.get())));
    }

    pub(crate) fn end_part(&self) {
        let Some((bytes, sweeps)) = self.making.take() else { return };
        let Unsent { expected, expected_before, .. } = &*self.connection;
        match self.connection.sweeps.get().wrapping_sub(sweeps) {
            0 => expected.sub(bytes),
            1 => expected_before.sub(bytes),
            _ => {}
        }
    }

    fn hold(&self, bytes: usize) {
        if self.held.get() == 0 && bytes > 0 {
            self.connection.replies.add(1);
        }
        self.held.add(bytes);
    }

    fn release(&self, bytes: usize) {
        self.held.sub(bytes);
        if self.held.get() == 0 && bytes > 0 {
            self.connection.replies.sub(1);
        }
    }

    /// The reason why the stream was ended because of its client, if it was.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut.get()
    }

    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut own = self.waker.borrow_mut();
        match own.as_ref() {
            Some(old) if old.will_wake(waker) => {}
            _ => *own = Some(waker.clone()),
        }
    }

    /// Ends the stream if its client has kept it waiting too long. Called only by the sweep.
    pub(crate) fn expire(&self, patience: &Patience) -> Option<Cut> {
        let accepted = self.accepted.take();
        let is_full = self.connection.bytes.get() > self.connection.low();
        let waits = self.held.get() > 0 || (self.is_waiting.get() && is_full);
        if !waits || self.connection.is_blocked.get() {
            self.since.set(None);
            return None;
        }
        let Some(mut since) = self.since.get() else {
            self.left.set(patience.pace.grace());
            self.since.set(Some(patience.now));
            return None;
        };
        if accepted > 0 {
            since = patience.now;
            self.since.set(Some(since));
        }
        // The streams share the rate of their connection.
        let bytes = accepted.saturating_mul(self.connection.replies.get().max(1) as u64);
        self.left.set(patience.pace.spend(self.left.get(), bytes, patience.passed));
        let waited = patience.now.saturating_duration_since(since);
        let cut = match () {
            () if waited > patience.write => Cut::WriteTimeout,
            () if self.left.get().is_zero() => Cut::SlowReader,
            () if patience.is_crowded && waited > CROWDED => Cut::UnsentBytes,
            () => return None,
        };
        if self.cut.replace(Some(cut)).is_some() {
            return None;
        }
        self.waker.take().into_iter().for_each(Waker::wake);
        Some(cut)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.end_part();
        self.connection.wake_waiting();
    }
}

/// Counts a piece's bytes until they are accepted or dropped.
#[derive(Clone, Debug)]
enum Owner {
    Connection(Rc<Unsent>),
    Stream(Rc<Sending>),
}

impl Owner {
    fn connection(&self) -> &Unsent {
        match self {
            Owner::Connection(unsent) => unsent,
            Owner::Stream(sending) => &sending.connection,
        }
    }
}

/// A response part in transit to the client, counted until it is sent.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    data: Bytes,
    owner: Option<Owner>,
    is_counted: bool,
}

impl Piece {
    /// A response part over HTTP/1.1.
    pub(crate) fn of_connection(data: Bytes, unsent: &Rc<Unsent>) -> Self {
        Piece::new(data, Owner::Connection(Rc::clone(unsent)))
    }

    pub(crate) fn of_stream(data: Bytes, sending: &Rc<Sending>) -> Self {
        sending.hold(data.len());
        Piece::new(data, Owner::Stream(Rc::clone(sending)))
    }

    fn new(data: Bytes, owner: Owner) -> Self {
        let is_counted = counted(&data) > 0;
        if is_counted {
            owner.connection().hold(data.len());
        }
        Piece { data, owner: Some(owner), is_counted }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    /// Takes up to `most` bytes from the front.
    pub(crate) fn take_front(&mut self, most: usize) -> Piece {
        let data = self.data.split_to(most.min(self.data.len()));
        Piece { data, owner: self.owner.clone(), is_counted: self.is_counted }
    }

    fn release(&self, bytes: usize) {
        let Some(owner) = &self.owner else { return };
        if let Owner::Stream(sending) = owner {
            sending.release(bytes);
        }
        if self.is_counted {
            owner.connection().release(bytes);
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.data.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.data
    }

    fn chunks_vectored<'a>(&'a self, out: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(out)
    }

    fn advance(&mut self, bytes: usize) {
        self.data.advance(bytes);
        if let Some(Owner::Stream(sending)) = &self.owner {
            sending.accepted.set(sending.accepted.get() + bytes as u64);
        }
        self.release(bytes);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.release(self.data.len());
    }
}
