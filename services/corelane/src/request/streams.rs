//! The HTTP/2 streams of a lane that wait for their clients.

use std::cell::RefCell;
use std::rc::Rc;

use crate::base::registry::{Entry, Registry};
use crate::request::exchanges::Exchange;
use crate::request::finished::Cut;
use crate::request::unsent::{Patience, Sending};

/// All HTTP/2 streams of a lane that have waited for their clients.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    waiting: Registry<Rc<Sending>>,
    /// Set by the body of a response for the task that first polls the body.
    sending: RefCell<Option<Rc<Sending>>>,
    /// Set by a response that accepts an extended CONNECT, for the task that hyper starts in the
    /// same poll to send its output.
    upgrade: RefCell<Option<Box<Exchange>>>,
}

impl Streams {
    /// Records that the body of this response is polled for the first time.
    pub(crate) fn note(&self, sending: &Rc<Sending>) {
        self.sending.replace(Some(Rc::clone(sending)));
    }

    /// The response whose body was polled for the first time since the last call.
    pub(crate) fn take_noted(&self) -> Option<Rc<Sending>> {
        self.sending.take()
    }

    /// Records that the stream of the current response is upgraded.
    pub(crate) fn set_upgrade(&self, exchange: Box<Exchange>) {
        self.upgrade.replace(Some(exchange));
    }

    /// The upgrade that the task about to start serves, if it sends the output of an upgrade.
    pub(crate) fn take_upgrade(&self) -> Option<Box<Exchange>> {
        self.upgrade.take()
    }

    /// Ends the streams whose clients have kept them waiting for too long, and calls `ended` for
    /// each.
    pub(crate) fn expire(&self, patience: &Patience, ended: impl FnMut(Cut)) {
        let waiting = self.waiting.all();
        waiting.iter().filter_map(|(_, sending)| sending.expire(patience)).for_each(ended);
    }
}

/// One of the lane's waiting streams.
#[derive(Debug)]
pub(crate) struct WaitingStream {
    pub(crate) sending: Rc<Sending>,
    _entry: Entry<Rc<Sending>>,
}

impl WaitingStream {
    pub(crate) fn new(streams: &Streams, sending: Rc<Sending>) -> Self {
        let entry = streams.waiting.enter(Rc::clone(&sending));
        WaitingStream { sending, _entry: entry }
    }
}
