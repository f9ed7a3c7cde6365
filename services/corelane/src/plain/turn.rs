//! The turn of a connection: it reads, answers and writes until it has to wait.

use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::buffers::Work;
use super::replies::HandOver;
use super::{Answering, Stage, Step};
use crate::body::Incoming;
use crate::connection::Connection;
use crate::http_connection::LaneService;
use crate::reply::{HttpService, Made, Reply};
use crate::socket::Socket;
use crate::stream::read_ahead;

/// Replies to pipelined requests are sent together, up to about this many bytes.
const TOGETHER: usize = 32 * 1024;

/// Maximum requests per turn of a connection, so that other tasks run in between.
pub(super) const REQUESTS: u32 = 32;

/// A turn of a connection.
pub(super) struct Turn<'a, S: HttpService> {
    pub(super) socket: &'a mut Socket,
    pub(super) connection: &'a Rc<Connection>,
    pub(super) host: &'a LaneService<S>,
    /// Requests that may still be answered in this turn.
    pub(super) left: u32,
}

impl<S: HttpService> Turn<'_, S> {
    /// Reads requests and answers them.
    pub(super) fn read(&mut self, cx: &mut Context<'_>) -> Step<S> {
        let mut input = self.host.buffers.take_input();
        let mut space = ReadBuf::new(&mut input);
        let polled = Pin::new(&mut *self.socket).poll_read(cx, &mut space);
        let came = space.filled().len();
        self.connection.tracker.read(polled.is_pending());
        let step = match polled {
            Poll::Pending => Step::Wait(Stage::Idle),
            Poll::Ready(Ok(())) if came > 0 => self.serve(&input[..came], None, cx),
            Poll::Ready(Ok(())) => Step::Go(self.ended()),
            Poll::Ready(Err(error)) => Step::Go(broken(&error)),
        };
        self.host.buffers.return_input(input);
        step
    }

    /// The client has closed its side, and nothing is in flight.
    fn ended(&self) -> Stage<S> {
        match self.socket {
            Socket::Plain(_) => Stage::Broken,
            // RFC 8446 section 6.1: each side sends an alert.
            Socket::Tls(_) => Stage::Leaving,
        }
    }

    /// Answers the requests in `bytes` in order. `held` is the buffer of `bytes` if it may be kept
    /// for the next turn.
    pub(super) fn serve(
        &mut self,
        bytes: &[u8],
        held: Option<&Bytes>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        let keep = |rest: &[u8]| match held {
            _ if rest.is_empty() => Bytes::new(),
            Some(held) => held.slice_ref(rest),
            None => Bytes::copy_from_slice(rest),
        };
        let buffers = &self.host.buffers;
        let mut out = buffers.take_output();
        let mut rest = bytes;
        let mut request = None;
        while !rest.is_empty() && out.len() < TOGETHER && self.left > 0 {
            let Some(length) = self.request(rest, &mut request) else {
                let over = HandOver { prefix: keep(rest), made: None };
                return self.write(out, Bytes::new(), Stage::HandOver(Box::new(over)), cx);
            };
            self.left -= 1;
            let (asked, behind) = rest.split_at(length);
            let mut desk = buffers.take_desk();
            let LaneService { lane, service, .. } = self.host;
            let reply = Reply::plain(service, lane, self.connection, &mut request);
            desk.set(Work::Reply { reply });
            let Poll::Ready(Ok(made)) = desk.as_mut().poll_reply(cx) else {
                let (asked, unread) = (Bytes::copy_from_slice(asked), keep(behind));
                let answering = Answering { desk, asked, unread, polled: true };
                return self.write(out, Bytes::new(), Stage::Answering(Box::new(answering)), cx);
            };
            let (all, behind_it) = (|| keep(rest), || keep(behind));
            if let Some((body, next)) = self.encode(desk, made, &mut out, all, behind_it, cx) {
                return self.write(out, body, next, cx);
            }
            rest = behind;
        }
        self.write(out, Bytes::new(), Stage::unread(keep(rest)), cx)
    }

    /// Parses the plain request at the start of `bytes`. Returns its length, including its body.
    fn request(&self, bytes: &[u8], request: &mut Option<Request<Incoming>>) -> Option<usize> {
        let buffers = &self.host.buffers;
        let mut head = buffers.head.borrow_mut();
        let length = head.read(bytes, &self.host.lane.limits)?;
        let mut memory = buffers.heads.borrow_mut();
        *request = head.request(bytes, &mut memory, buffers.take_fields());
        request.as_ref().map(|_| length)
    }

    /// Continues a reply that is not ready.
    pub(super) fn answer(
        &mut self,
        mut answering: Box<Answering<S>>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        if !mem::take(&mut answering.polled)
            && let Poll::Ready(Ok(made)) = answering.desk.as_mut().poll_reply(cx)
        {
            return self.answered(*answering, made, cx);
        }
        if self.listen(&mut answering.unread, cx) {
            Step::Wait(Stage::Answering(answering))
        } else {
            Step::Go(Stage::Broken)
        }
    }

    fn answered(
        &mut self,
        answering: Answering<S>,
        made: Made<S>,
        cx: &mut Context<'_>,
    ) -> Step<S> {
        let Answering { desk, asked, unread, .. } = answering;
        let mut out = self.host.buffers.take_output();
        let all = || Bytes::from([&asked[..], &unread].concat());
        let behind = || unread.clone();
        let (body, next) = self
            .encode(desk, made, &mut out, all, behind, cx)
            .unwrap_or_else(|| (Bytes::new(), Stage::unread(unread.clone())));
        self.write(out, body, next, cx)
    }

    /// Checks whether the client disconnected while its request waits. Returns whether it is still
    /// connected.
    pub(super) fn listen(&mut self, unread: &mut Bytes, cx: &mut Context<'_>) -> bool {
        if self.connection.waits_for_service() {
            read_ahead(self.socket, self.connection, unread, cx);
        }
        !self.connection.is_deserted()
    }

    /// Closes our side, between two requests.
    pub(super) fn leave(&mut self, cx: &mut Context<'_>) -> Step<S> {
        match Pin::new(&mut *self.socket).poll_shutdown(cx) {
            Poll::Pending => Step::Wait(Stage::Leaving),
            Poll::Ready(_) => Step::Go(Stage::Broken),
        }
    }

    /// Makes closing the socket discard what the client does not read.
    pub(super) fn reset(&mut self) {
        self.connection.set_reset();
        // Fails only if the socket is closed.
        let _ = self.socket.set_zero_linger();
    }
}

/// The stage after an error.
pub(super) fn broken<S: HttpService>(error: &io::Error) -> Stage<S> {
    tracing::debug!(%error, "a connection ended early");
    Stage::Broken
}
