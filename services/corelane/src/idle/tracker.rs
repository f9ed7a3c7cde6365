//! Detects when an HTTP/1.1 connection is exactly idle.
//!
//! hyper does not report that it has nothing left of a message to read or to write. It follows from
//! these rules, which rely on hyper 1.12.0 (`proto/h1/{dispatch,conn,io}.rs`):
//!
//! 1. The body of the last reply was dropped. hyper drops the service's future first. It drops the
//!    body after it has put the end of the message into its buffer.
//! 2. The body of the last request is empty or was *read to its end*: hyper finishes the message
//!    before it passes its last bytes or its end to the service. A body that was dropped does not
//!    count, because the rest of it may be in hyper's buffer, and would be parsed as a request.
//!    However, hyper has finished it once it reads from the socket, if its input ends between two
//!    messages or within a head. For a body it reads only when its buffer is empty.
//! 3. The socket was flushed after the last write, and after the last end of a reply. hyper flushes
//!    it only when its own buffer is empty, and tries to in each poll.
//! 4. To move, the connection must have served a request on its lane: a newly registered socket is
//!    not readable in its first turn, so the connection would keep moving.
//!
//! The rules hold only if hyper was polled and waits, because it has then made all possible
//! progress. If hyper itself decides to stop, the connection ends in the same turn with
//! [`Tracker::end`]: at the end of the stream, on a rejected head, or with `Connection: close`.
//!
//! Two more conditions follow from these rules: hyper's input ends between two messages or within a
//! head, and no message was marked as the last.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::body_watch::BodyWatch;

/// The state of a connection that decides whether it is idle.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    in_flight: Cell<u32>,
    /// Part of a reply may be in hyper's or the socket's buffer.
    unsettled: Cell<bool>,
    /// The body of the last request, if it has one. hyper reads no further request until it has
    /// finished this one, so one is enough. Each body has its own watch, so a late reader of an
    /// earlier body does not affect the next.
    body: RefCell<Option<Arc<BodyWatch>>>,
    /// The body of the previous request, if it was not read to its end when the last one began.
    #[cfg(feature = "chaos")]
    before: RefCell<Option<Arc<BodyWatch>>>,
    /// The last read from the socket returned no data.
    blocked: Cell<bool>,
    /// The input ends within a body.
    within_body: Cell<bool>,
    /// The last request is or may be the last of its connection.
    last: Cell<bool>,
    /// The connection is ending.
    ending: Cell<bool>,
}

impl Tracker {
    /// A request with this body begins.
    pub(crate) fn begin_request(&self, body: Option<Arc<BodyWatch>>) {
        self.in_flight.set(self.in_flight.get() + 1);
        #[cfg(not(feature = "chaos"))]
        self.body.replace(body);
        #[cfg(feature = "chaos")]
        self.before.replace(self.body.replace(body).filter(|body| !body.is_seen()));
    }

    /// A request was read. `last`: its headers end the connection.
    pub(crate) fn set_last(&self, last: bool) {
        self.last.set(last);
    }

    /// Whether the last request is or may be the last of its connection.
    pub(crate) fn is_last(&self) -> bool {
        self.last.get()
    }

    /// The body of a reply was dropped.
    pub(crate) fn end_request(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.unsettled.set(true);
    }

    /// Requests whose replies are not ready, or not completely passed to hyper.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// Bytes are about to be written.
    pub(crate) fn writing(&self) {
        self.unsettled.set(true);
    }

    /// The socket has all output.
    pub(crate) fn flushed(&self) {
        self.unsettled.set(false);
    }

    /// hyper reads from the socket.
    pub(crate) fn asks(&self) {
        if !self.within_body.get() {
            self.body.take();
        }
    }

    /// The socket was read. `blocked`: it had no data.
    pub(crate) fn read(&self, blocked: bool) {
        self.blocked.set(blocked);
    }

    /// Whether all received data was read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// Input was tracked. `between_bodies`: it ends between two messages, or within a head.
    pub(crate) fn followed(&self, between_bodies: bool) {
        self.within_body.set(!between_bodies);
    }

    /// The connection will not be idle again.
    pub(crate) fn end(&self) {
        self.ending.set(true);
    }

    /// Whether another request may come.
    pub(crate) fn goes_on(&self) -> bool {
        !self.ending.get() && !self.last.get()
    }

    /// Whether the body of the last reply was dropped (rule 1).
    pub(crate) fn has_replied(&self) -> bool {
        self.in_flight.get() == 0
    }

    /// Whether the socket has all that was to be written (rule 3).
    pub(crate) fn is_flushed(&self) -> bool {
        !self.unsettled.get()
    }

    /// Whether hyper has finished the body of the last request, if it has one (rule 2).
    pub(crate) fn is_body_seen(&self) -> bool {
        let seen = self.body.borrow().as_ref().is_none_or(|body| body.is_seen());
        seen && !self.within_body.get()
    }

    /// The same, if a body of another request that was read since then counted too.
    #[cfg(feature = "chaos")]
    pub(crate) fn is_body_seen_by_anyone(&self) -> bool {
        self.is_body_seen() || self.before.borrow().as_ref().is_some_and(|body| body.is_seen())
    }

    /// Whether nothing of a message is left. Valid only if the connection was polled and waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.goes_on() && self.has_replied() && self.is_flushed() && self.is_body_seen()
    }
}

#[cfg(test)]
mod tests;
