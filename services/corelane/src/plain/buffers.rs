//! What the plain connections of a lane share: one of them works at a time, and leaves nothing
//! behind, so that a connection between two requests holds no memory for either.

use std::cell::{Cell, RefCell};
use std::pin::Pin;

use bytes::BytesMut;
use http::HeaderMap;

use super::date::Date;
use super::head::Head;
use crate::reply::{HttpService, Reply};

/// Bytes that are read at a time.
const READ: usize = 16 * 1024;

/// Heads share blocks of this size: a request that lasts keeps one of them, at most.
const HEADS: usize = 4096;

/// Most bytes of the buffer for replies that are kept for the next.
const KEPT: usize = 64 * 1024;

/// A place for a reply that is being made.
pub(super) type Desk<S> = Pin<Box<Option<Reply<S>>>>;

/// The buffers of a lane's plain connections.
pub(crate) struct Buffers<S: HttpService> {
    input: Cell<Vec<u8>>,
    output: Cell<Vec<u8>>,
    /// Memory of the heads of requests.
    pub(super) heads: RefCell<BytesMut>,
    pub(super) head: RefCell<Head>,
    pub(super) date: RefCell<Date>,
    fields: Cell<HeaderMap>,
    desk: Cell<Option<Desk<S>>>,
}

impl<S: HttpService> Buffers<S> {
    pub(crate) fn new() -> Self {
        Buffers {
            input: Cell::default(),
            output: Cell::default(),
            heads: RefCell::new(BytesMut::with_capacity(HEADS)),
            head: RefCell::default(),
            date: RefCell::new(Date::new()),
            fields: Cell::default(),
            desk: Cell::default(),
        }
    }

    /// Room for what is read.
    pub(super) fn take_input(&self) -> Vec<u8> {
        let mut input = self.input.take();
        input.resize(READ, 0);
        input
    }

    pub(super) fn return_input(&self, input: Vec<u8>) {
        self.input.set(input);
    }

    /// An empty buffer for replies.
    pub(super) fn take_output(&self) -> Vec<u8> {
        self.output.take()
    }

    pub(super) fn return_output(&self, mut output: Vec<u8>) {
        if output.capacity() <= KEPT {
            output.clear();
            self.output.set(output);
        }
    }

    /// An empty map for the fields of a request.
    pub(super) fn take_fields(&self) -> HeaderMap {
        self.fields.take()
    }

    /// Gives back the map of a reply that was written.
    pub(super) fn return_fields(&self, mut fields: HeaderMap) {
        fields.clear();
        self.fields.set(fields);
    }

    pub(super) fn take_desk(&self) -> Desk<S> {
        self.desk.take().unwrap_or_else(|| Box::pin(None))
    }

    /// Gives back a place whose reply is made.
    pub(super) fn return_desk(&self, mut desk: Desk<S>) {
        desk.set(None);
        self.desk.set(Some(desk));
    }
}
