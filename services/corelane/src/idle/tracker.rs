//! Tells from outside when a connection of HTTP/1.1 is exactly idle.
//!
//! hyper does not say when it has nothing of a message left, neither read nor to be written. It
//! follows from four rules, which rely on hyper 1.12.0 (`proto/h1/{dispatch,conn,io}.rs`):
//!
//! 1. The body of the last reply is dropped. The dispatcher drops it after it has put the end of
//!    the message into its buffer, and the future of the service before that.
//! 2. The body of the last request is empty, or was seen to its end: the decoder has then left the
//!    message already. One that was dropped is not seen: what is left of it may be in hyper's
//!    buffer.
//! 3. The socket was flushed after the last write and the last end of a reply. hyper flushes it
//!    only when its own buffer is empty.
//! 4. For a move: a request was served since the connection came to the lane. A socket that was
//!    just registered never seems readable at its first poll.
//!
//! And hyper was polled and has to wait: only then has it gone as far as it can.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::body_watch::BodyWatch;

/// What of a connection decides whether it is idle.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// Something of a reply may not have left hyper's buffer, or the socket's.
    unsettled: Cell<bool>,
    /// The body of the last request, if it has one. hyper reads no further request before it has
    /// read all of it, so there is but one to be watched; and each has its own watch, so that a
    /// late reader of one says nothing of the next.
    body: RefCell<Option<Arc<BodyWatch>>>,
    /// That of the request before, if it was not seen when the last one began.
    #[cfg(feature = "chaos")]
    before: RefCell<Option<Arc<BodyWatch>>>,
    /// The socket had nothing when it was last read.
    blocked: Cell<bool>,
    /// The connection ends, or goes on as something else.
    ending: Cell<bool>,
}

impl Tracker {
    /// A request begins, with this body.
    pub(crate) fn begin_request(&self, body: Option<Arc<BodyWatch>>) {
        #[cfg(not(feature = "chaos"))]
        self.body.replace(body);
        #[cfg(feature = "chaos")]
        self.before.replace(self.body.replace(body).filter(|body| !body.is_seen()));
    }

    /// The body of a reply was dropped.
    pub(crate) fn end_request(&self) {
        self.unsettled.set(true);
    }

    /// Bytes are to be written.
    pub(crate) fn writing(&self) {
        self.unsettled.set(true);
    }

    /// The socket has every byte that was written.
    pub(crate) fn flushed(&self) {
        self.unsettled.set(false);
    }

    /// The socket was read; whether it had nothing.
    pub(crate) fn read(&self, blocked: bool) {
        self.blocked.set(blocked);
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.get()
    }

    /// The connection is never idle again.
    pub(crate) fn end(&self) {
        self.ending.set(true);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.get()
    }

    /// Whether nothing of a message is left, if no request is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_flushed() && self.is_body_seen()
    }

    /// Whether the socket has all that was to be written.
    pub(crate) fn is_flushed(&self) -> bool {
        !self.unsettled.get()
    }

    /// Whether the body of the last request was seen to its end, if it has one.
    pub(crate) fn is_body_seen(&self) -> bool {
        self.body.borrow().as_ref().is_none_or(|body| body.is_seen())
    }

    /// The same if it made no difference whose body it was that was seen since the request began.
    #[cfg(feature = "chaos")]
    pub(crate) fn is_body_seen_by_anyone(&self) -> bool {
        self.is_body_seen() || self.before.borrow().as_ref().is_some_and(|body| body.is_seen())
    }
}
