//! The fast path for plain requests, which most clients send most of the time. It takes about a
//! third of the instructions that hyper takes.
//!
//! A request is plain if every HTTP/1.1 parser reads its head the same way ([`head`](crate::message::head) is strict) and
//! its body, if any, has a Content-Length. The fast path sends every reply to it.
//!
//! An HTTP/1.1 connection starts here. At the first request that is not plain, the connection goes
//! to hyper for the rest of its life, with its unread bytes. The service has not been called for
//! that request.
//!
//! Between two requests a connection holds no buffer and no part of the last request.

mod encode;
mod replies;
mod requests;
mod turn;

use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use replies::{Streaming, Writing};
use tokio::task::spawn_local;
use turn::{Input, REQUESTS, Turn};

use crate::os::socket::Socket;
use crate::request::connection::{Closing, Order};
use crate::request::service::HttpService;
use crate::transport::buffers::ReplySlot;
use crate::transport::connections::Registration;
use crate::transport::host::LaneService;
use crate::transport::resting::{Leave, Resting};

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
enum Flow<S: HttpService> {
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
            leave(&self.host, registration, socket, unread, to);
        }
    }

    /// Gives the connection to hyper.
    fn hand_over(&mut self, unread: Bytes) {
        if let (Some(socket), Some(registration)) = (self.socket.take(), self.registration.take()) {
            self.host.fall_back(registration, socket, unread);
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

/// Serves an HTTP/1.1 connection between two requests, starting with `unread`, which was already
/// read.
pub(crate) fn go_on<S: HttpService>(
    host: &Rc<LaneService<S>>,
    registration: Registration,
    socket: Socket,
    unread: Bytes,
) {
    if host.connections.fast_path {
        registration.connection.set_plain(true);
        spawn_local(Plain::new(Rc::clone(host), registration, socket, unread));
    } else {
        host.fall_back(registration, socket, unread);
    }
}

/// Parks or moves an idle connection that has left its task. `unread` was read from the socket and
/// starts with a message.
fn leave<S: HttpService>(
    host: &Rc<LaneService<S>>,
    registration: Registration,
    mut socket: Socket,
    unread: Bytes,
    to: Leave,
) {
    #[cfg(feature = "chaos")]
    let unread = match &host.connections.chaos {
        Some(chaos) => chaos.unread(unread),
        None => unread,
    };
    if !socket.is_quiet() {
        registration.connection.stay();
        return go_on(host, registration, socket, unread);
    }
    let (history, guard) = registration.leave();
    let resting = match Resting::new(history, guard, socket, unread) {
        Ok(resting) => resting,
        Err(error) => {
            tracing::warn!(lane = host.lane.index, %error, "cannot move a connection to another lane");
            return;
        }
    };
    let stays = match to {
        Leave::Park => host.connections.parking_lot.park(&host.lane, resting),
        Leave::Move { lane, why } => host.connections.moves.depart(resting, lane, why).err(),
    };
    if let Some(resting) = stays {
        resume(host, resting, None);
    }
}

/// Resumes a connection on the calling lane, with `order` first if there is one.
pub(crate) fn resume<S: HttpService>(
    host: &Rc<LaneService<S>>,
    resting: Resting,
    order: Option<Order>,
) {
    let Resting { socket, unread, history, guard } = resting;
    let socket = match socket.wake() {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(lane = host.lane.index, %error, "cannot poll a connection");
            drop(guard);
            return host.connections.lost_one();
        }
    };
    let registration = Registration::resume(&host.connections, guard, history);
    if let Some(order) = order {
        registration.connection.tell(order);
    }
    go_on(host, registration, socket, unread.into_bytes());
}

impl<S: HttpService> Flow<S> {
    fn into_stage(self) -> Stage<S> {
        match self {
            Flow::Go(stage) | Flow::Wait(stage) => stage,
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
                    turn.connection.end_turn();
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
                Flow::Go(next) => stage = next,
                Flow::Wait(next @ (Stage::Idle | Stage::Head(_)))
                    if let Some(to) = turn.host.connections.due(turn.connection) =>
                {
                    let unread = match next {
                        Stage::Head(head) => head.freeze(),
                        _ => Bytes::new(),
                    };
                    this.leave(unread, to);
                    return Poll::Ready(());
                }
                Flow::Wait(next) => {
                    if !matches!(next, Stage::Idle | Stage::Head(_)) {
                        turn.connection.end_turn();
                    }
                    this.stage = next;
                    return Poll::Pending;
                }
            }
        }
    }
}
