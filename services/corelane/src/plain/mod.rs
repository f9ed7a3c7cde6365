//! The fast path: serves plain requests without hyper, at a third of the cost. A plain request is
//! an HTTP/1.1 request that arrives in one read, including its body, and contains nothing that two
//! parsers could read differently (see [`head`]). Most requests of most clients are plain.
//!
//! A connection starts here once its protocol is detected. In these cases it goes to hyper, with
//! all bytes that were read and not answered, until its requests are plain again ([`crate::idle`]):
//!
//! - at the first request that is not plain or did not arrive in one read;
//! - at the first reply that cannot be sent with a length. Either the length of its body is
//!   unknown, or it has a header about the connection, such as `Connection: close` in a drain. Then
//!   hyper parses the request again and reads its body, and its service returns the reply that was
//!   already made.
//!
//! Between two requests a connection holds no buffer and nothing of the last request.

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

use bytes::Bytes;

pub(crate) use buffers::Buffers;
use buffers::Desk;
use replies::{HandOver, Streaming, Writing};
use turn::{REQUESTS, Turn};

use crate::connection::{Order, Registration};
use crate::http_connection::{LaneService, serve_http1};
use crate::idle::{self, Leave};
use crate::reply::HttpService;
use crate::socket::Socket;

/// A connection whose requests have all been plain.
pub(crate) struct Plain<S: HttpService> {
    // Dropped first: a request is in flight until its handler is dropped.
    stage: Stage<S>,
    /// Both are set until hyper takes the connection.
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
    /// The service makes a reply.
    Answering(Box<Answering<S>>),
    /// The service makes the body of a reply.
    Streaming(Box<Streaming<S>>),
    /// The socket could not accept the whole reply.
    Writing(Box<Writing<S>>),
    /// The connection goes to hyper.
    HandOver(Box<HandOver<S>>),
    /// Our side is being closed.
    Leaving,
    /// The connection failed.
    Broken,
}

impl<S: HttpService> Stage<S> {
    /// Continues with bytes that were read.
    fn unread(bytes: Bytes) -> Self {
        if bytes.is_empty() { Stage::Idle } else { Stage::Unread(Box::new(bytes)) }
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
    desk: Desk<S>,
    /// The bytes of the request, and those that follow it.
    asked: Bytes,
    unread: Bytes,
    /// The reply was already polled in this turn.
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

    /// Takes the connection from this task, which holds only its socket.
    fn leave(&mut self, to: Leave) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            idle::leave(&self.host, registration, socket, Bytes::new(), to);
        }
    }

    /// Gives the connection to hyper.
    fn hand_over(&mut self, over: HandOver<S>) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            registration.connection.hand_over();
            serve_http1(&self.host, registration, socket, over.prefix, over.made);
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
        let mut stage = mem::replace(&mut this.stage, Stage::Broken);
        turn.connection.begin_turn();
        while let Poll::Ready(order) = turn.connection.poll_order(cx) {
            stage = match (order, stage) {
                (Order::Finish, Stage::Idle) => Stage::Leaving,
                (Order::Finish, stage) => {
                    turn.connection.close_after_reply();
                    stage
                }
                (Order::Expire, _) => return Poll::Ready(()),
                (Order::Reset, _) => {
                    turn.reset();
                    return Poll::Ready(());
                }
            };
        }
        loop {
            let step = match stage {
                Stage::Idle | Stage::Unread(_) if turn.left == 0 => {
                    cx.waker().wake_by_ref();
                    Step::Wait(stage)
                }
                Stage::Idle => turn.read(cx),
                Stage::Unread(bytes) => turn.serve(&bytes, Some(&bytes), cx),
                Stage::Answering(answering) => turn.answer(answering, cx),
                Stage::Streaming(streaming) => turn.stream(streaming, cx),
                Stage::Writing(writing) => turn.go_on_writing(writing, cx),
                Stage::Leaving => turn.leave(cx),
                Stage::HandOver(over) => {
                    this.hand_over(*over);
                    return Poll::Ready(());
                }
                Stage::Broken => return Poll::Ready(()),
            };
            match step {
                Step::Go(next) => stage = next,
                Step::Wait(Stage::Idle) if let Some(to) = idle::due(turn.connection) => {
                    this.leave(to);
                    return Poll::Ready(());
                }
                Step::Wait(next) => {
                    if !matches!(next, Stage::Idle) {
                        idle::end_poll(turn.connection);
                    }
                    this.stage = next;
                    return Poll::Pending;
                }
            }
        }
    }
}
