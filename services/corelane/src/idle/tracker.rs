//! Tells from outside when a connection of HTTP/1.1 is exactly idle.
//!
//! hyper does not say when it has nothing left of a message, neither read nor to be written. It
//! follows from these rules, which rely on hyper 1.12.0 (`proto/h1/{dispatch,conn,io}.rs`):
//!
//! 1. The body of the last reply was dropped. hyper drops it when it has put the end of the message
//!    into its buffer, and before that the future of the service.
//! 2. The body of the last request is empty, or was *seen to its end*: hyper has left the message
//!    before it gives its last bytes, or its end, to the service. A body that was dropped is not
//!    seen: what is left of it may wait in hyper's buffer, and would be taken for a request. But
//!    hyper has left that too once it asks the socket for more, when all that it has read ended
//!    between two messages or within a head: for a body it asks only when its buffer is empty.
//! 3. The socket was flushed after the last write, and after the last end of a reply: hyper flushes
//!    it only when its own buffer is empty, and tries to in each of its turns.
//! 4. For a move, a request was served since the connection came to its lane: a socket that was
//!    just registered never seems readable in its first turn, and would move on for ever.
//!
//! All of it holds only when hyper was polled and has to wait: then it has gone as far as it can.
//! What hyper decides by itself ends the connection in the same turn, and with
//! [`Tracker::end`]: an end of the stream, a head that it refuses, `Connection: close`.
//!
//! Two more are not needed if these are right: the bytes that hyper has read end between two
//! messages or within a head, and no message said that it is the last.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::body_watch::BodyWatch;

/// What of a connection decides whether it is idle.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    in_flight: Cell<u32>,
    /// Something of a reply may not have left hyper's buffer, or the socket's.
    unsettled: Cell<bool>,
    /// The body of the last request, if it has one. hyper reads no further request before it has
    /// left this one, so there is but one to be watched; and each has its own watch, so that a late
    /// reader of one says nothing of the next.
    body: RefCell<Option<Arc<BodyWatch>>>,
    /// That of the request before, if it was not seen when the last one began.
    #[cfg(feature = "chaos")]
    before: RefCell<Option<Arc<BodyWatch>>>,
    /// The socket had nothing when it was last read.
    blocked: Cell<bool>,
    /// What was read ends within a body.
    within_body: Cell<bool>,
    /// The last request is the last of its connection, or may be.
    last: Cell<bool>,
    /// The connection ends.
    ending: Cell<bool>,
}

impl Tracker {
    /// A request begins, with this body.
    pub(crate) fn begin_request(&self, body: Option<Arc<BodyWatch>>) {
        self.in_flight.set(self.in_flight.get() + 1);
        #[cfg(not(feature = "chaos"))]
        self.body.replace(body);
        #[cfg(feature = "chaos")]
        self.before.replace(self.body.replace(body).filter(|body| !body.is_seen()));
    }

    /// A request was read; whether its fields leave it open that another comes.
    pub(crate) fn set_last(&self, last: bool) {
        self.last.set(last);
    }

    /// Whether the last request is the last of its connection, or may be.
    pub(crate) fn is_last(&self) -> bool {
        self.last.get()
    }

    /// The body of a reply was dropped.
    pub(crate) fn end_request(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        self.unsettled.set(true);
    }

    /// Requests whose replies are not made, or not handed to hyper to their end.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    /// Bytes are to be written.
    pub(crate) fn writing(&self) {
        self.unsettled.set(true);
    }

    /// The socket has every byte that was to be written.
    pub(crate) fn flushed(&self) {
        self.unsettled.set(false);
    }

    /// hyper asks the socket for more.
    pub(crate) fn asks(&self) {
        if !self.within_body.get() {
            self.body.take();
        }
    }

    /// The socket was read; whether it had nothing.
    pub(crate) fn read(&self, blocked: bool) {
        self.blocked.set(blocked);
    }

    /// Whether everything that came was read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// What was read was followed; whether it ends between two messages, or within a head.
    pub(crate) fn followed(&self, between_bodies: bool) {
        self.within_body.set(!between_bodies);
    }

    /// The connection is never idle again.
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

    /// Whether hyper has left the body of the last request, if it has one (rule 2).
    pub(crate) fn is_body_seen(&self) -> bool {
        let seen = self.body.borrow().as_ref().is_none_or(|body| body.is_seen());
        seen && !self.within_body.get()
    }

    /// The same if it made no difference whose body it was that was seen since the request began.
    #[cfg(feature = "chaos")]
    pub(crate) fn is_body_seen_by_anyone(&self) -> bool {
        self.is_body_seen() || self.before.borrow().as_ref().is_some_and(|body| body.is_seen())
    }

    /// Whether nothing of a message is left. Asked only when the connection was polled and has to
    /// wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.goes_on() && self.has_replied() && self.is_flushed() && self.is_body_seen()
    }
}

#[cfg(test)]
mod tests;
