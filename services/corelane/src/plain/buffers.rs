//! What the plain connections of a lane share: one of them works at a time, and leaves nothing
//! behind, so that a connection between two requests holds no memory for either.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use pin_project_lite::pin_project;

use super::date::Date;
use super::head::Head;
use crate::reply::{BoxError, HttpService, Made, Reply};
use crate::reply_body::ReplyBody;

/// Bytes that are read at a time.
const READ: usize = 16 * 1024;

/// Heads share blocks of this size: a request that lasts keeps one of them, at most.
const HEADS: usize = 4096;

/// Most bytes of the buffer for replies that are kept for the next.
const KEPT: usize = 64 * 1024;

/// A place for a reply that is being made, and for its body.
pub(super) type Desk<S> = Pin<Box<Work<S>>>;

/// A reply cannot fail: what goes wrong is one too.
type Answer<S> = Result<Made<S>, Infallible>;

pin_project! {
    /// What the service is polled for.
    #[project = WorkProjection]
    pub(super) enum Work<S: HttpService> {
        Nothing,
        Reply { #[pin] reply: Reply<S> },
        Body { #[pin] body: ReplyBody<S::Body> },
    }
}

impl<S: HttpService> Work<S> {
    /// Polls for the head of a reply.
    pub(super) fn poll_reply(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer<S>> {
        match self.project() {
            WorkProjection::Reply { reply } => reply.poll(cx),
            _ => unreachable!("its reply is made once"),
        }
    }

    /// Polls for the next bytes of the body; `None` at its end. Trailers are left out: no plain
    /// request says that its client takes them (RFC 9110 section 6.5.1).
    pub(super) fn poll_data(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            let data = match ready!(self.as_mut().body().poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }

    /// Whether the body is known to have ended.
    pub(super) fn has_ended(self: Pin<&mut Self>) -> bool {
        self.body().is_end_stream()
    }

    fn body(self: Pin<&mut Self>) -> Pin<&mut ReplyBody<S::Body>> {
        match self.project() {
            WorkProjection::Body { body } => body,
            _ => unreachable!("its head is made"),
        }
    }
}

/// The buffers of a lane's plain connections.
pub(crate) struct Buffers<S: HttpService> {
    input: Cell<Vec<u8>>,
    output: Cell<Vec<u8>>,
    /// Memory of the heads of requests.
    pub(super) heads: RefCell<BytesMut>,
    pub(super) head: RefCell<Head>,
    pub(super) date: RefCell<Date>,
    fields: Cell<Option<HeaderMap>>,
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
        self.fields.take().unwrap_or_default()
    }

    /// Gives back the map of a reply that was written.
    pub(super) fn return_fields(&self, mut fields: HeaderMap) {
        fields.clear();
        self.fields.set(Some(fields));
    }

    pub(super) fn take_desk(&self) -> Desk<S> {
        self.desk.take().unwrap_or_else(|| Box::pin(Work::Nothing))
    }

    /// Gives back a place, and drops what is there.
    pub(super) fn return_desk(&self, mut desk: Desk<S>) {
        desk.set(Work::Nothing);
        self.desk.set(Some(desk));
    }
}
