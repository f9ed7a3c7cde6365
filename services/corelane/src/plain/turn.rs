//! What a connection does when its task is polled: it reads, answers and writes until it has to
//! wait.

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

/// Replies to requests that came together are sent together, up to about so many bytes.
const TOGETHER: usize = 32 * 1024;

/// Most requests of one connection that are answered in a turn: then others have theirs.
pub(super) const REQUESTS: u32 = 32;

/// A connection in its turn.
pub(super) struct Turn<'a, S: HttpService> {
    pub(super) socket: &'a mut Socket,
    pub(super) connection: &'a Rc<Connection>,
    pub(super) host: &'a LaneService<S>,
    /// Requests that may still be answered in it.
    pub(super) left: u32,
}

impl<S: HttpService> Turn<'_, S> {
    /// Waits for requests, and answers them.
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
            // RFC 8446 section 6.1: each side says that it ends.
            Socket::Tls(_) => Stage::Leaving,
        }
    }

    /// Answers the requests of which `bytes` consist, in their order. `held` is what they are a
    /// part of, if that is to be kept for the next turn.
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

    /// Reads the plain request that `bytes` begin with; its length, with its body.
    fn request(&self, bytes: &[u8], request: &mut Option<Request<Incoming>>) -> Option<usize> {
        let buffers = &self.host.buffers;
        let mut head = buffers.head.borrow_mut();
        let length = head.read(bytes, &self.host.lane.limits)?;
        let mut memory = buffers.heads.borrow_mut();
        *request = head.request(bytes, &mut memory, buffers.take_fields());
        request.as_ref().map(|_| length)
    }

    /// Goes on with a reply that is not made yet.
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

    /// Hears the client leave while its request waits; whether it is still there.
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

    /// Lets the end of the socket drop what the client does not take.
    pub(super) fn reset(&mut self) {
        self.connection.set_reset();
        // Fails only for a socket that is gone already.
        let _ = self.socket.set_zero_linger();
    }
}

/// An end by an error.
pub(super) fn broken<S: HttpService>(error: &io::Error) -> Stage<S> {
    tracing::debug!(%error, "a connection ended early");
    Stage::Broken
}
