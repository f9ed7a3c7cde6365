//! The fast path for plain requests, which most clients send most of the time. It takes about a
//! third of the instructions that hyper takes.
//!
//! A request is plain if every HTTP/1.1 parser reads its head the same way ([`head`] is strict) and
//! its body, if any, has a Content-Length. The fast path sends every reply to it.
//!
//! An HTTP/1.1 connection starts here. At the first request that is not plain, the connection goes
//! to hyper for the rest of its life, with its unread bytes. The service has not been called for
//! that request.
//!
//! Between two requests a connection holds no buffer and no part of the last request.

mod buffers;
mod date;
mod encode;
mod head;
mod names;
mod replies;
mod turn;

use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};

pub(crate) use buffers::Buffers;
use buffers::ReplySlot;
use replies::{Streaming, Writing};
use turn::{Input, REQUESTS, Turn};

use crate::connection::{Closing, Order, Registration};
use crate::http_connection::{LaneService, serve_http1};
use crate::idle::{self, Leave};
use crate::service::HttpService;
use crate::socket::Socket;

/// A connection whose requests have all been plain.
pub(crate) struct Plain<S: HttpService> {
    // Dropped first: a request is in flight until its handler is dropped.
    stage: Stage<S>,
    /// Both are set until the connection leaves its task.
    socket: Option<Socket>,
    registration: Option<Registration>,
    host: Rc<LaneService<S>>,
}

/// The stage of a connection. Variants are boxed, because most connections are idle.
enum Stage<S: HttpService> {
    /// Waits for a request.
    Idle,
    /// These bytes have to be processed.
    Unread(Box<Bytes>),
    /// Waits for the rest of this head.
    Head(Box<BytesMut>),
    /// The service makes a reply.
    Answering(Box<Answering<S>>),
    /// The service makes the body of a reply.
    Streaming(Box<Streaming<S>>),
    /// The socket could not accept the whole reply.
    Writing(Box<Writing<S>>),
    /// A reply is written, and the body of its request is not read to its end.
    Discarding(Box<Input>),
    /// Goes to hyper with these unread bytes.
    HandOver(Box<Bytes>),
    /// Closes our side, then waits for the client's.
    Leaving(Closing),
    /// Finished or failed.
    Broken,
}

impl<S: HttpService> Stage<S> {
    /// Continues with bytes that were read.
    fn unread(bytes: Bytes) -> Self {
        if bytes.is_empty() { Stage::Idle } else { Stage::Unread(Box::new(bytes)) }
    }

    /// Ends the connection after a reply.
    fn closing() -> Self {
        Stage::Leaving(Closing::default())
    }
}

/// The result of one step of a turn.
enum Step<S: HttpService> {
    /// Continue the turn.
    Go(Stage<S>),
    /// End the turn and wait.
    Wait(Stage<S>),
}

/// A request whose reply is being made.
struct Answering<S: HttpService> {
    reply_slot: ReplySlot<S>,
    input: Input,
    /// The reply was polled in this turn already.
    polled: bool,
}

impl<S: HttpService> Plain<S> {
    /// Serves a connection that starts with `prefix`.
    pub(crate) fn new(
        host: Rc<LaneService<S>>,
        registration: Registration,
        socket: Socket,
        prefix: Bytes,
    ) -> Self {
        let (socket, registration) = (Some(socket), Some(registration));
        Plain { stage: Stage::unread(prefix), socket, registration, host }
    }

    /// Moves the connection, with its unread bytes, out of this task.
    fn leave(&mut self, unread: Bytes, to: Leave) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            idle::leave(&self.host, registration, socket, unread, to);
        }
    }

    /// Gives the connection to hyper.
    fn hand_over(&mut self, unread: Bytes) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            serve_http1(&self.host, registration, socket, unread);
        }
    }

    /// Carries out the lane's orders. `None`: the connection ends at once.
    fn obey(turn: &mut Turn<'_, S>, mut stage: Stage<S>, cx: &mut Context<'_>) -> Option<Stage<S>> {
        while let Poll::Ready(order) = turn.connection.poll_order(cx) {
            stage = match (order, stage) {
                (Order::Finish, Stage::Idle) => Stage::Leaving(Closing::at_rest()),
                (Order::Finish, Stage::Discarding(_)) => Stage::closing(),
                (Order::Finish, stage) => {
                    turn.connection.close_after_reply();
                    stage
                }
                (Order::Expire, Stage::Head(head)) => turn.time_out(&head, cx).into_stage(),
                (Order::Expire, Stage::Unread(head)) if turn.connection.in_header() => {
                    turn.time_out(&head, cx).into_stage()
                }
                (Order::Expire, _) => return None,
                (Order::Reset, _) => {
                    turn.reset();
                    return None;
                }
            };
        }
        Some(stage)
    }
}

impl<S: HttpService> Step<S> {
    fn into_stage(self) -> Stage<S> {
        match self {
            Step::Go(stage) | Step::Wait(stage) => stage,
        }
    }
}

impl<S: HttpService> Future for Plain<S> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let (Some(socket), Some(registration)) = (&mut this.socket, &this.registration) else {
            return Poll::Ready(());
        };
        let connection = &registration.connection;
        let mut turn = Turn { socket, connection, host: &this.host, left: REQUESTS };
        turn.connection.begin_turn();
        let stage = mem::replace(&mut this.stage, Stage::Broken);
        let Some(mut stage) = Self::obey(&mut turn, stage, cx) else { return Poll::Ready(()) };
        loop {
            let step = match stage {
                Stage::Idle | Stage::Unread(_) if turn.left == 0 => {
                    // Yields to other connections.
                    cx.waker().wake_by_ref();
                    idle::end_poll(turn.connection);
                    this.stage = stage;
                    return Poll::Pending;
                }
                Stage::Idle => turn.read(cx),
                Stage::Head(head) => turn.read_on(head, cx),
                Stage::Unread(bytes) => turn.serve(&bytes, Some(&bytes), cx),
                Stage::Answering(answering) => turn.answer(answering, cx),
                Stage::Streaming(streaming) => turn.stream(streaming, cx),
                Stage::Writing(writing) => turn.go_on_writing(writing, cx),
                Stage::Discarding(input) => turn.discard(input, cx),
                Stage::Leaving(closing) => turn.leave(closing, cx),
                Stage::HandOver(unread) => {
                    this.hand_over(*unread);
                    return Poll::Ready(());
                }
                Stage::Broken => return Poll::Ready(()),
            };
            match step {
                Step::Go(next) => stage = next,
                Step::Wait(next @ (Stage::Idle | Stage::Head(_)))
                    if let Some(to) = idle::due(turn.connection) =>
                {
                    let unread = match next {
                        Stage::Head(head) => head.freeze(),
                        _ => Bytes::new(),
                    };
                    this.leave(unread, to);
                    return Poll::Ready(());
                }
                Step::Wait(next) => {
                    if !matches!(next, Stage::Idle | Stage::Head(_)) {
                        idle::end_poll(turn.connection);
                    }
                    this.stage = next;
                    return Poll::Pending;
                }
            }
        }
    }
}
