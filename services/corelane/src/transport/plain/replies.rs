//! Writes replies to the socket.

use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::{Flow, Heard, Input, PlainTurn, Stage, broken};
use crate::base::error::BoxError;
use crate::request::reply::Made;
use crate::request::send_batch;
use crate::request::service::HttpService;
use crate::request::unsent::{Held, LaneUnsent, counted};
use crate::transport::buffers::{ReplySlot, ReplyState};
use crate::transport::encode::{self, BodyLength, Encoded, chunk_line};

/// Parts of a body up to this size are copied into the output buffer. This is cheaper than a
/// vectored write, for which the kernel copies and checks the vector first (writev(2)).
const JOINED: usize = 4096;

/// What the socket has not taken yet.
pub(super) struct Writing<S: HttpService> {
    out: Vec<u8>,
    /// Bytes of `out` that were written.
    at: usize,
    /// Behind `out`.
    part: Part,
    next: Stage<S>,
    /// Set while it waits for the client.
    held: Option<Held>,
}

/// A part of a body that is not copied, and the bytes that follow it.
#[derive(Default)]
pub(super) struct Part {
    data: Bytes,
    tail: &'static [u8],
}

/// A reply whose body comes in parts.
pub(super) struct Streaming<S: HttpService> {
    reply_slot: ReplySlot<S>,
    encoded: Encoded,
    /// Bytes that the client sent after the head of the request.
    input: Input,
    /// The body was polled in this turn already.
    polled: bool,
}

/// Result of encoding a reply.
pub(super) enum Encoding<S: HttpService> {
    /// All of it; a part of the body is not in the output buffer.
    Complete { part: Part, close: bool },
    /// The beginning of it.
    Begun(Part, Box<Streaming<S>>),
    /// The body failed.
    Failed(BoxError),
}

impl<S: HttpService> Encoding<S> {
    /// Whether the next request can be answered in the same write.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Encoding::Complete { part, close: false } if part.is_empty())
    }
}

/// Result of polling a body.
enum Gathered {
    /// Enough for one write.
    Part(Part),
    /// The rest of the body.
    End(Part),
    /// The body is pending.
    Waits,
    /// The body failed.
    Failed(BoxError),
}

impl<S: HttpService> PlainTurn<'_, S> {
    /// Appends a reply to `out`, as far as its body is ready. `ends`: the connection ends with it.
    pub(super) fn encode(
        &self,
        mut reply_slot: ReplySlot<S>,
        reply: Made<S>,
        out: &mut Vec<u8>,
        ends: bool,
        cx: &mut Context<'_>,
    ) -> Encoding<S> {
        let buffers = &self.host.buffers;
        let begun = out.len();
        let encoded = encode::head(&reply, ends, &mut buffers.date.borrow_mut(), out);
        let head_ends = out.len();
        let (head, body) = reply.into_parts();
        buffers.return_fields(head.headers);
        reply_slot.set(ReplyState::Body { body });
        let close = encoded.close;
        if encoded.framing == BodyLength::Length(0) {
            buffers.return_reply_slot(reply_slot);
            return Encoding::Complete { part: Part::default(), close };
        }
        let mut streaming =
            Streaming { reply_slot, encoded, input: Input::default(), polled: false };
        match streaming.gather(out, cx) {
            Gathered::End(part) => {
                buffers.return_reply_slot(streaming.reply_slot);
                Encoding::Complete { part, close }
            }
            Gathered::Part(part) => Encoding::Begun(part, Box::new(streaming)),
            Gathered::Waits => {
                streaming.polled = true;
                Encoding::Begun(Part::default(), Box::new(streaming))
            }
            Gathered::Failed(error) => {
                // Nothing is sent of a reply whose body failed before its first byte.
                if out.len() == head_ends {
                    out.truncate(begun);
                }
                Encoding::Failed(error)
            }
        }
    }

    /// What to write after the output buffer, and the stage after that write. `input`: what the
    /// client sent after the head of the request.
    pub(super) fn follow(&self, encoding: Encoding<S>, input: Input) -> (Part, Stage<S>) {
        match encoding {
            Encoding::Complete { part, close } => (part, self.after(close, input)),
            Encoding::Begun(part, mut streaming) => {
                streaming.input = input;
                streaming.reply_slot.as_mut().set_streaming();
                (part, Stage::Streaming(streaming))
            }
            Encoding::Failed(error) => (Part::default(), broken(&*error)),
        }
    }

    /// The stage after a complete reply. `close`: the connection ends.
    pub(super) fn after(&self, close: bool, input: Input) -> Stage<S> {
        if close {
            Stage::closing()
        } else if input.upload.is_some() {
            Stage::Discarding(Box::new(input))
        } else {
            Stage::unread(input.unread)
        }
    }

    /// Continues a body in several parts.
    pub(super) fn stream(
        &mut self,
        mut streaming: Box<Streaming<S>>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        loop {
            if !mem::take(&mut streaming.polled) {
                let mut out = self.host.buffers.take_output();
                match streaming.gather(&mut out, cx) {
                    Gathered::Part(part) => {
                        return self.write(out, part, Stage::Streaming(streaming), cx);
                    }
                    Gathered::End(part) => {
                        let Streaming { reply_slot, encoded, input, .. } = *streaming;
                        self.host.buffers.return_reply_slot(reply_slot);
                        let next = self.after(encoded.close, input);
                        return self.write(out, part, next, cx);
                    }
                    Gathered::Failed(error) => {
                        return self.write(out, Part::default(), broken(&*error), cx);
                    }
                    Gathered::Waits if out.is_empty() => self.host.buffers.return_output(out),
                    Gathered::Waits => {
                        streaming.polled = true;
                        return self.write(out, Part::default(), Stage::Streaming(streaming), cx);
                    }
                }
            }
            match self.listen(&mut streaming.input, cx) {
                Heard::More => {}
                Heard::Nothing => return Flow::Wait(Stage::Streaming(streaming)),
                Heard::End => return Flow::Go(Stage::Broken),
            }
        }
    }

    /// Writes `out` and `part` now or with the lane's batch, then continues with `next`.
    pub(super) fn write(
        &mut self,
        out: Vec<u8>,
        part: Part,
        next: Stage<S>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        if matches!(next, Stage::Idle) && part.is_empty() && self.may_wait(&out) {
            self.host.buffers.keep_ready(out);
            self.ready = true;
            return Flow::Go(next);
        }
        let mut writing = Writing { out, at: 0, part, next, held: None };
        if writing.is_done() {
            self.host.buffers.return_output(writing.out);
            return Flow::Go(writing.next);
        }
        self.connection.writing();
        match self.poll_writing(&mut writing, cx) {
            Poll::Ready(result) => self.written(writing, result),
            Poll::Pending => {
                let held_up = writing.held_up(&self.host.lane.unsent);
                Flow::Wait(Stage::Writing(Box::new(held_up)))
            }
        }
    }

    /// Whether these replies may wait for others of the same turn.
    fn may_wait(&self, out: &[u8]) -> bool {
        let lane = &self.host.lane;
        // A handshake may take a millisecond. All connections of a port have TLS, or none has.
        !self.socket.is_tls()
            && (1..=send_batch::REPLY).contains(&out.len())
            && self.left > 0
            // Otherwise the connection may have to leave in this turn.
            && !lane.polls.is_raised()
            && lane.sends.is_worthwhile(lane.shared().sleeps())
    }

    /// Leaves the ready replies to the lane's batch.
    pub(super) fn batch(&self) {
        let out = self.host.buffers.take_ready();
        self.outlet.batch(&out);
        self.host.buffers.return_output(out);
    }

    pub(super) fn go_on_writing(
        &mut self,
        mut writing: Box<Writing<S>>,
        cx: &mut Context<'_>,
    ) -> Flow<S> {
        match self.poll_writing(&mut writing, cx) {
            Poll::Ready(result) => self.written(*writing, result),
            Poll::Pending => Flow::Wait(Stage::Writing(writing)),
        }
    }

    // Always inlined, as `poll_writing` is: that saves 17 instructions per request.
    #[inline(always)]
    fn written(&self, writing: Writing<S>, result: io::Result<()>) -> Flow<S> {
        if let Err(error) = result {
            return Flow::Go(broken(&error));
        }
        self.connection.flushed();
        self.host.buffers.return_output(writing.out);
        Flow::Go(writing.next)
    }

    #[inline(always)]
    fn poll_writing(
        &mut self,
        writing: &mut Writing<S>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !writing.is_done() {
            let socket = Pin::new(&mut *self.socket);
            let out = &writing.out[writing.at..];
            let Part { data, tail } = &writing.part;
            let polled = if data.is_empty() && tail.is_empty() {
                socket.poll_write(cx, out)
            } else if out.is_empty() && tail.is_empty() {
                socket.poll_write(cx, data)
            } else {
                let parts = [IoSlice::new(out), IoSlice::new(data), IoSlice::new(tail)];
                socket.poll_write_vectored(cx, &parts)
            };
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => {
                    writing.advance(taken);
                    self.connection.wrote(taken);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Pin::new(&mut *self.socket).poll_flush(cx)
    }
}

impl Part {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.tail.is_empty()
    }
}

impl<S: HttpService> Writing<S> {
    /// Continues a reply of the batch.
    pub(super) fn rest(out: Box<[u8]>, next: Stage<S>) -> Self {
        Writing { out: out.into(), at: 0, part: Part::default(), next, held: None }
    }

    fn is_done(&self) -> bool {
        self.at == self.out.len() && self.part.is_empty()
    }

    fn advance(&mut self, taken: usize) {
        let of_out = taken.min(self.out.len() - self.at);
        self.at += of_out;
        let of_data = (taken - of_out).min(self.part.data.len());
        self.part.data.advance(of_data);
        self.part.tail = &self.part.tail[taken - of_out - of_data..];
    }

    /// The socket accepts nothing more in this turn, so the next stage starts in another.
    fn held_up(mut self, unsent: &Rc<LaneUnsent>) -> Self {
        let bytes = self.out.len() - self.at + counted(&self.part.data);
        self.held = Some(Held::new(unsent, bytes));
        match &mut self.next {
            Stage::Answering(answering) => answering.polled = false,
            Stage::Streaming(streaming) => streaming.polled = false,
            _ => {}
        }
        self
    }
}

impl<S: HttpService> Streaming<S> {
    /// Appends what the body has ready to `out`, up to the size of one write.
    fn gather(&mut self, out: &mut Vec<u8>, cx: &mut Context<'_>) -> Gathered {
        loop {
            let data = match self.reply_slot.as_mut().poll_data(cx) {
                Poll::Pending => return Gathered::Waits,
                Poll::Ready(Some(Ok(data))) => data,
                Poll::Ready(Some(Err(error))) => return Gathered::Failed(error),
                Poll::Ready(None) => return self.end(out),
            };
            let gathered = match &mut self.encoded.framing {
                BodyLength::Length(left) => of_length(data, left, out),
                BodyLength::Chunked => chunk(data, self.reply_slot.as_mut().has_ended(), out),
            };
            match gathered {
                Some(gathered) => return gathered,
                None if out.len() >= JOINED => return Gathered::Part(Part::default()),
                None => {}
            }
        }
    }

    /// The body has ended.
    fn end(&self, out: &mut Vec<u8>) -> Gathered {
        match self.encoded.framing {
            BodyLength::Length(_) => Gathered::Failed("a body is shorter than announced".into()),
            BodyLength::Chunked => {
                out.extend_from_slice(LAST_CHUNK);
                Gathered::End(Part::default())
            }
        }
    }
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends data to a body of which `left` bytes are still to be sent. Data beyond the announced
/// length is dropped, so that it does not corrupt the next reply.
fn of_length(mut data: Bytes, left: &mut u64, out: &mut Vec<u8>) -> Option<Gathered> {
    data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= data.len() as u64;
    let part = if data.len() <= JOINED {
        out.extend_from_slice(&data);
        Part::default()
    } else {
        Part { data, tail: b"" }
    };
    match (*left, part.is_empty()) {
        (0, _) => Some(Gathered::End(part)),
        (_, false) => Some(Gathered::Part(part)),
        (_, true) => None,
    }
}

/// Appends a chunk, and the last chunk if the body has `ended`.
fn chunk(data: Bytes, ended: bool, out: &mut Vec<u8>) -> Option<Gathered> {
    chunk_line(data.len(), out);
    let part = if data.len() <= JOINED {
        out.extend_from_slice(&data);
        out.extend_from_slice(if ended { b"\r\n0\r\n\r\n" } else { b"\r\n" });
        Part::default()
    } else {
        Part { data, tail: if ended { b"\r\n0\r\n\r\n" } else { b"\r\n" } }
    };
    match (ended, part.is_empty()) {
        (true, _) => Some(Gathered::End(part)),
        (_, false) => Some(Gathered::Part(part)),
        (_, true) => None,
    }
}
