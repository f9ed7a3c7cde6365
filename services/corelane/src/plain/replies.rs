//! Writes replies to the socket.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::buffers::{Desk, Work};
use super::turn::{Turn, broken};
use super::{Stage, Step, encode};
use crate::reply::{HttpService, Made};

/// A body of up to this size is copied behind its head and sent with it. That is cheaper than a
/// vectored write, for which the kernel copies and checks the vector first (send(2), writev(2)).
const JOINED: usize = 4096;

/// Output that the socket has not accepted yet.
pub(super) struct Writing<S: HttpService> {
    out: Vec<u8>,
    /// Bytes of `out` that were written.
    at: usize,
    /// Follows `out`.
    body: Bytes,
    next: Stage<S>,
}

/// The rest of a body in several parts.
pub(super) struct Streaming<S: HttpService> {
    desk: Desk<S>,
    /// Bytes of it that are still missing.
    left: u64,
    /// The input after the request.
    unread: Bytes,
    /// The body was already polled in this turn.
    polled: bool,
}

/// The state for hyper.
pub(super) struct HandOver<S: HttpService> {
    pub(super) prefix: Bytes,
    /// The reply to the request at the start of `prefix`.
    pub(super) made: Option<Box<Made<S>>>,
}

impl<S: HttpService> Turn<'_, S> {
    /// Appends a reply to `out`. `None`: it is complete. Otherwise returns the next stage, after
    /// `out` is written. `all` is the input, and `behind` its part after the request.
    pub(super) fn encode(
        &self,
        mut desk: Desk<S>,
        mut reply: Made<S>,
        out: &mut Vec<u8>,
        all: impl FnOnce() -> Bytes,
        behind: impl FnOnce() -> Bytes,
        cx: &mut Context<'_>,
    ) -> Option<(Bytes, Stage<S>)> {
        let buffers = &self.host.buffers;
        let begun = out.len();
        let Some(length) = encode::head(&reply, &mut buffers.date.borrow_mut(), out) else {
            buffers.return_desk(desk);
            let mut fields = mem::take(reply.headers_mut());
            reply.body().ticket().name(&mut fields);
            *reply.headers_mut() = fields;
            let over = HandOver { prefix: all(), made: Some(Box::new(reply)) };
            return Some((Bytes::new(), Stage::HandOver(Box::new(over))));
        };
        let (head, body) = reply.into_parts();
        buffers.return_fields(head.headers);
        if length == 0 {
            buffers.return_desk(desk);
            return None;
        }
        desk.set(Work::Body { body });
        let first = match desk.as_mut().poll_data(cx) {
            Poll::Ready(Ok(data)) => data,
            Poll::Ready(Err(error)) => {
                // Discards a reply that cannot be sent, while none of it was written.
                out.truncate(begun);
                return Some((Bytes::new(), broken(&error)));
            }
            Poll::Pending => {
                let unread = behind();
                let streaming = Streaming { desk, left: length, unread, polled: true };
                return Some((Bytes::new(), Stage::Streaming(Box::new(streaming))));
            }
        };
        if first.len() as u64 == length && first.len() <= JOINED {
            out.extend_from_slice(&first);
            buffers.return_desk(desk);
            return None;
        }
        let streaming = Streaming { desk, left: length, unread: behind(), polled: false };
        Some(streaming.give(first))
    }

    /// Continues a body in several parts.
    pub(super) fn stream(
        &mut self,
        mut streaming: Box<Streaming<S>>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        if !mem::take(&mut streaming.polled) {
            match streaming.desk.as_mut().poll_data(cx) {
                Poll::Ready(Ok(data)) => {
                    let (data, next) = streaming.give(data);
                    return self.write(Vec::new(), data, next, cx);
                }
                Poll::Ready(Err(error)) => return Step::Go(broken(&error)),
                Poll::Pending => {}
            }
        }
        if self.listen(&mut streaming.unread, cx) {
            Step::Wait(Stage::Streaming(streaming))
        } else {
            Step::Go(Stage::Broken)
        }
    }

    /// Writes `out` and `body`, then continues with `next`.
    pub(super) fn write(
        &mut self,
        out: Vec<u8>,
        body: Bytes,
        next: Stage<S>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        let mut writing = Writing { out, at: 0, body, next };
        if writing.is_done() {
            self.host.buffers.return_output(writing.out);
            return Step::Go(writing.next);
        }
        self.connection.writing();
        match self.poll_writing(&mut writing, cx) {
            Poll::Ready(result) => self.written(writing, result),
            Poll::Pending => Step::Wait(Stage::Writing(Box::new(writing.held_up()))),
        }
    }

    pub(super) fn go_on_writing(
        &mut self,
        mut writing: Box<Writing<S>>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        match self.poll_writing(&mut writing, cx) {
            Poll::Ready(result) => self.written(*writing, result),
            Poll::Pending => Step::Wait(Stage::Writing(writing)),
        }
    }

    fn written(&self, writing: Writing<S>, result: io::Result<()>) -> Step<S> {
        if let Err(error) = result {
            return Step::Go(broken(&error));
        }
        self.connection.flushed();
        self.host.buffers.return_output(writing.out);
        Step::Go(writing.next)
    }

    fn poll_writing(
        &mut self,
        writing: &mut Writing<S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !writing.is_done() {
            let socket = Pin::new(&mut *self.socket);
            let out = &writing.out[writing.at..];
            let polled = if writing.body.is_empty() {
                socket.poll_write(cx, out)
            } else if out.is_empty() {
                socket.poll_write(cx, &writing.body)
            } else {
                socket.poll_write_vectored(cx, &[IoSlice::new(out), IoSlice::new(&writing.body)])
            };
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => writing.advance(taken),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
            self.connection.wrote();
        }
        Pin::new(&mut *self.socket).poll_flush(cx)
    }
}

impl<S: HttpService> Writing<S> {
    fn is_done(&self) -> bool {
        self.at == self.out.len() && self.body.is_empty()
    }

    fn advance(&mut self, taken: usize) {
        let of_out = taken.min(self.out.len() - self.at);
        self.at += of_out;
        self.body.advance(taken - of_out);
    }

    /// The socket accepts nothing more in this turn, so the next stage starts in another.
    fn held_up(mut self) -> Self {
        match &mut self.next {
            Stage::Answering(answering) => answering.polled = false,
            Stage::Streaming(streaming) => streaming.polled = false,
            _ => {}
        }
        self
    }
}

impl<S: HttpService> Streaming<S> {
    /// The part of `data` that belongs to the reply, and the next stage. Excess data of the service
    /// must not shift the next reply.
    fn give(mut self, mut data: Bytes) -> (Bytes, Stage<S>) {
        data.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= data.len() as u64;
        let whole = self.left == 0;
        (data, if whole { Stage::unread(self.unread) } else { Stage::Streaming(Box::new(self)) })
    }
}
