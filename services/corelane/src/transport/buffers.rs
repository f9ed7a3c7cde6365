//! Buffers shared by a lane's plain connections. Only one connection works at a time, and it
//! returns the buffers empty, so idle connections do not need memory for input or output.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::base::clock::Tick;
use crate::base::error::BoxError;
use crate::message::head::Head;
use crate::request::made::{Made, ReplyBody};
use crate::request::reply::Reply;
use crate::request::service::HttpService;

const READ: usize = 16 * 1024;

/// Block size for heads. A long request keeps at most one block alive.
const HEADS: usize = 4096;

/// Maximum capacity of the output buffer that is kept for reuse.
const KEPT: usize = 64 * 1024;

pub(super) type ReplySlot<S> = Pin<Box<ReplyState<S>>>;

/// This cannot fail, because errors are also turned into responses.
type HeadResult<S> = Result<Made<S>, Infallible>;

pin_project! {
    #[project = ReplyStateProjection]
    pub(super) enum ReplyState<S: HttpService> {
        Nothing,
        Reply { #[pin] reply: Reply<S> },
        Body { #[pin] body: ReplyBody<S::Body> },
    }
}

impl<S: HttpService> ReplyState<S> {
    /// Polls for the response head, which becomes ready only once.
    pub(super) fn poll_reply(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HeadResult<S>> {
        match self.project() {
            ReplyStateProjection::Reply { reply } => reply.poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Polls for the next bytes of the body. Returns `None` after the last byte. Omits trailers,
    /// because a plain request cannot announce that its client accepts them (RFC 9110 section
    /// 6.5.1).
    pub(super) fn poll_data(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BoxError>>> {
        loop {
            let Some(body) = self.as_mut().body() else { return Poll::Ready(None) };
            let data = match ready!(body.poll_service(cx)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }

    pub(super) fn set_streaming(self: Pin<&mut Self>) {
        if let Some(body) = self.body() {
            body.in_flight().set_streaming();
        }
    }

    pub(super) fn has_ended(self: Pin<&mut Self>) -> bool {
        self.body().is_none_or(|body| body.is_end_stream())
    }

    /// The response's body, once the head is ready.
    fn body(self: Pin<&mut Self>) -> Option<Pin<&mut ReplyBody<S::Body>>> {
        match self.project() {
            ReplyStateProjection::Body { body } => Some(body),
            _ => None,
        }
    }
}

pub(crate) struct Buffers<S: HttpService> {
    input: Cell<Vec<u8>>,
    output: Cell<Vec<u8>>,
    pub(super) heads: RefCell<BytesMut>,
    pub(super) head: RefCell<Head>,
    pub(super) date: RefCell<Date>,
    fields: Cell<Option<HeaderMap>>,
    reply_slot: Cell<Option<ReplySlot<S>>>,
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
            reply_slot: Cell::default(),
        }
    }

    pub(super) fn take_input(&self) -> Vec<u8> {
        let mut input = self.input.take();
        input.resize(READ, 0);
        input
    }

    pub(super) fn return_input(&self, input: Vec<u8>) {
        self.input.set(input);
    }

    pub(super) fn take_output(&self) -> Vec<u8> {
        let mut output = self.output.take();
        output.clear();
        output
    }

    pub(super) fn keep_ready(&self, output: Vec<u8>) {
        self.output.set(output);
    }

    pub(super) fn take_ready(&self) -> Vec<u8> {
        self.output.take()
    }

    pub(super) fn return_output(&self, output: Vec<u8>) {
        if output.capacity() <= KEPT {
            self.output.set(output);
        }
    }

    pub(super) fn take_fields(&self) -> HeaderMap {
        self.fields.take().unwrap_or_default()
    }

    pub(super) fn return_fields(&self, mut fields: HeaderMap) {
        fields.clear();
        self.fields.set(Some(fields));
    }

    pub(super) fn take_reply_slot(&self) -> ReplySlot<S> {
        self.reply_slot.take().unwrap_or_else(|| Box::pin(ReplyState::Nothing))
    }

    pub(super) fn return_reply_slot(&self, mut reply_slot: ReplySlot<S>) {
        reply_slot.set(ReplyState::Nothing);
        self.reply_slot.set(Some(reply_slot));
    }
}

const SECOND: u64 = 1_000_000_000;

/// The end of a head: the date line (RFC 9110 section 6.6.1) and an empty line, updated once per
/// second from the wall clock.
#[derive(Debug)]
pub(super) struct Date {
    lines: String,
    /// The time when the lines were created, and the number of nanoseconds for which they are
    /// valid.
    read: Tick,
    lasts: u64,
}

impl Date {
    pub(super) fn new() -> Self {
        Date { lines: String::new(), read: Tick::now(), lasts: 0 }
    }

    /// `now` must be the current or a recent time.
    pub(super) fn at(&mut self, now: Tick) -> &[u8] {
        if now.since(self.read) >= self.lasts {
            self.read = Tick::now();
            self.set(SystemTime::now());
        }
        self.lines.as_bytes()
    }

    fn set(&mut self, now: SystemTime) {
        let into = now.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.subsec_nanos());
        self.lasts = SECOND - u64::from(into);
        let second = now - Duration::from_nanos(u64::from(into));
        self.lines = format!("date: {}\r\n\r\n", httpdate::fmt_http_date(second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_the_second_of_the_wall_clock() {
        let mut date = Date::new();
        let begun = UNIX_EPOCH + Duration::new(784_111_777, 400_000_000);
        date.set(begun);
        let lines = b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        assert_eq!(date.lasts, 600_000_000);
        let (last, next) = (date.read.later(599_999_999), date.read.later(600_000_000));
        assert_eq!(date.at(last), lines);
        assert_ne!(date.at(next), lines, "read anew");
    }
}
