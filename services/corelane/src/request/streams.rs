//! A lane's HTTP/2 streams that are waiting for their clients.

use std::cell::RefCell;
use std::rc::Rc;

use crate::base::registry::{Entry, Registry};
use crate::request::exchanges::Exchange;
use crate::request::finished::Cut;
use crate::request::unsent::{Patience, Sending};

/// A lane's HTTP/2 streams that have had to wait for their clients.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    waiting: Registry<Rc<Sending>>,
    /// Set by a response body, for the task that first polls it.
    sending: RefCell<Option<Rc<Sending>>>,
    /// Set by a response that accepts an extended CONNECT, for the task that hyper starts in the
    /// same poll to send its output.
    upgrade: RefCell<Option<Box<Exchange>>>,
}

impl Streams {
    pub(crate) fn note(&self, sending: &Rc<Sending>) {
        self.sending.replace(Some(Rc::clone(sending)));
    }

    pub(crate) fn take_noted(&self) -> Option<Rc<Sending>> {
        self.sending.take()
    }

    pub(crate) fn set_upgrade(&self, exchange: Box<Exchange>) {
        self.upgrade.replace(Some(exchange));
    }

    /// The upgrade for the task that is about to start, if that task sends the output of an
    /// upgrade.
    pub(crate) fn take_upgrade(&self) -> Option<Box<Exchange>> {
        self.upgrade.take()
    }

    /// Resets the streams of clients that have stalled for too long, and calls `ended` for each.
    pub(crate) fn expire(&self, patience: &Patience, ended: impl FnMut(Cut)) {
        let waiting = self.waiting.all();
        waiting.iter().filter_map(|(_, sending)| sending.expire(patience)).for_each(ended);
    }
}

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
