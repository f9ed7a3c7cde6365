//! The plain path serves plain requests, which make up most of what most clients send. It needs
//! about a third of the instructions that hyper needs.
//!
//! A request is plain if every HTTP/1.1 parser reads its head the same way ([`head`] is strict) and
//! its body, if any, has a Content-Length. The plain path sends every response to a plain request.
//!
//! An HTTP/1.1 connection starts here. At the first request that is not plain, and before the
//! service is called for it, the connection and its unread bytes move to hyper permanently.
//!
//! Between requests, a connection holds no buffer and no part of the last request. When many
//! connections are ready, a small response waits in the lane's [`SendBatch`] until the end of the
//! event-loop turn.
//!
//! [`head`]: crate::message::head
//! [`SendBatch`]: crate::request::send_batch::SendBatch

mod replies;
mod requests;
mod rest;
mod writing;

use std::error::Error;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use replies::Streaming;
use requests::Input;
use rest::leave;
pub(crate) use rest::{go_on, resume, wake};
use writing::{Outlet, Writing};

use crate::balance::lending::{Offered, Returned};
use crate::os::socket::{Claim, Socket};
use crate::request::connection::{Closing, Connection, Order};
use crate::request::finished::Cut;
use crate::request::service::HttpService;
use crate::transport::buffers::ReplySlot;
use crate::transport::connections::Registration;
use crate::transport::host::LaneService;
use crate::transport::resting::Leave;

/// A connection with only plain requests.
pub(crate) struct Plain<S: HttpService> {
    // Dropped first: a request is in flight until its handler is dropped.
    stage: Stage<S>,
    // Dropped before the socket.
    offered: Option<Offered>,
    /// The outlet and the registration are set until the connection leaves its task.
    outlet: Option<Rc<Outlet>>,
    registration: Option<Registration>,
    host: Rc<LaneService<S>>,
}

/// Variants are boxed, because most connections are idle.
enum Stage<S: HttpService> {
    Idle,
    /// Must process these bytes.
    Unread(Box<Bytes>),
    Head(Box<BytesMut>),
    Answering(Box<Answering<S>>),
    /// Waits for the service to produce the body of a response.
    Streaming(Box<Streaming<S>>),
    /// Waits for a socket that could not take the whole response.
    Writing(Box<Writing<S>>),
    /// Reads the rest of a request's body after the response.
    Discarding(Box<Input>),
    /// Goes to hyper with these unread bytes.
    HandOver(Box<Bytes>),
    Leaving(Closing),
    Broken,
}

impl<S: HttpService> Stage<S> {
    /// The stage that continues with bytes that have already been read.
    fn unread(bytes: Bytes) -> Self {
        if bytes.is_empty() { Stage::Idle } else { Stage::Unread(Box::new(bytes)) }
    }

    fn name(&self) -> &'static str {
        match self {
            Stage::Idle => "idle",
            Stage::Unread(_) => "unread",
            Stage::Head(_) => "head",
            Stage::Answering(_) => "answering",
            Stage::Streaming(_) => "streaming",
            Stage::Writing(_) => "writing",
            Stage::Discarding(_) => "discarding",
            Stage::HandOver(_) => "hand over",
            Stage::Leaving(_) => "leaving",
            Stage::Broken => "broken",
        }
    }

    /// The stage that ends the connection after a response.
    fn closing() -> Self {
        Stage::Leaving(Closing::default())
    }
}

enum Flow<S: HttpService> {
    Go(Stage<S>),
    Wait(Stage<S>),
}

/// A request with an incomplete response.
struct Answering<S: HttpService> {
    reply_slot: ReplySlot<S>,
    input: Input,
    /// Whether the response was already polled in this turn.
    polled: bool,
}

impl<S: HttpService> Plain<S> {
    pub(crate) fn new(
        host: Rc<LaneService<S>>,
        registration: Registration,
        socket: Socket,
        prefix: Bytes,
    ) -> Self {
        let (socket, offered) = registration.offer(socket);
        let outlet = Outlet::new(socket, &registration.connection);
        let (outlet, registration) = (Some(outlet), Some(registration));
        Plain { stage: Stage::unread(prefix), offered, outlet, registration, host }
    }

    /// Moves the connection, with its unread bytes, out of this task.
    fn leave(&mut self, unread: Bytes, to: Leave) {
        self.offered = None;
        if let (Some(outlet), Some(registration)) = (self.outlet.take(), self.registration.take()) {
            leave(&self.host, registration, outlet.into_socket(), unread, to);
        }
    }

    /// Hands the connection to hyper. A borrowed connection is handed over on its own lane.
    fn hand_over(&mut self, unread: Bytes) {
        self.offered = None;
        if let (Some(outlet), Some(registration)) = (self.outlet.take(), self.registration.take()) {
            match registration.connection.is_guest() {
                true => registration.give_back(unread),
                false => self.host.fall_back(registration, outlet.into_socket(), unread),
            }
        }
    }

    /// Whether the lane may use the socket in the current stage. Another lane may have borrowed the
    /// socket.
    fn claim(
        turn: &PlainTurn<'_, S>,
        offered: Option<&Offered>,
        stage: Stage<S>,
        cx: &mut Context<'_>,
    ) -> Result<Stage<S>, Stage<S>> {
        match turn.socket.claim() {
            Claim::Own => Ok(stage),
            Claim::Lent => {
                turn.connection.lend();
                turn.connection.register(cx);
                Err(stage)
            }
            Claim::Back => {
                let returned = offered.map(Offered::returned).unwrap_or_default();
                let Returned { requests, had_body, unread, has_ended } = returned;
                turn.connection.take_back(requests, had_body);
                Ok(if has_ended { Stage::Broken } else { Stage::unread(unread) })
            }
        }
    }

    #[inline]
    fn rest(&mut self, stage: Stage<S>) -> Poll<()> {
        self.stage = stage;
        debug_assert!(self.is_legal(), "{}", self.stage.name());
        Poll::Pending
    }

    /// Whether the stage is compatible with the state of the connection, the socket, its offer and
    /// the lane's batch. The valid combinations for a waiting connection are:
    ///
    /// | stage                | connection            | shared socket         | batch        |
    /// |----------------------|-----------------------|-----------------------|--------------|
    /// | idle                 | no request, or lent   | in use, or not        | has none     |
    /// | idle                 | no request            | in use                | has a response  |
    /// | unread               | no request            | in use                | has none     |
    /// | discarding           | within a body         | in use                | has none     |
    /// | head                 | has begun to receive  | in use                | has none     |
    /// | answering, streaming | a request             | in use                | has none     |
    /// | writing              | unflushed             | in use                | has none     |
    /// | leaving              | any                   | in use                | has none     |
    fn is_legal(&self) -> bool {
        let (Some(outlet), Some(registration)) = (&self.outlet, &self.registration) else {
            return false;
        };
        let (connection, released) = (&registration.connection, outlet.is_released());
        let fits = match &self.stage {
            Stage::Idle => connection.has_no_request(),
            Stage::Unread(_) => connection.is_silent(),
            Stage::Discarding(_) => connection.is_in_body(),
            Stage::Head(_) => connection.in_header(),
            Stage::Answering(_) | Stage::Streaming(_) => connection.is_serving(),
            Stage::Writing(_) => connection.is_unflushed(),
            Stage::Leaving(_) => true,
            // A connection in these stages is not waiting.
            Stage::HandOver(_) | Stage::Broken => false,
        };
        let is_idle = matches!(self.stage, Stage::Idle);
        fits && self.offered.is_some() == released.is_some()
            && (is_idle || !outlet.is_behind())
            && (released != Some(true) || (is_idle && !outlet.is_behind()))
    }

    /// Carries out the lane's orders. `None` if the connection ends at once.
    fn obey(
        turn: &mut PlainTurn<'_, S>,
        mut stage: Stage<S>,
        cx: &mut Context<'_>,
    ) -> Option<Stage<S>> {
        while let Poll::Ready(order) = turn.connection.poll_order(cx) {
            stage = match (order, stage) {
                (Order::Finish, Stage::Idle) => Stage::Leaving(Closing::at_rest()),
                (Order::Finish, stage) => {
                    turn.connection.close_after_reply();
                    stage
                }
                (Order::Expire, Stage::Head(head)) => turn.time_out(&head, cx).into_stage(),
                (Order::Expire, Stage::Unread(head)) if turn.connection.in_header() => {
                    turn.time_out(&head, cx).into_stage()
                }
                (Order::Expire, _) => return None,
                (Order::Reset(cut), _) => {
                    turn.reset(cut);
                    return None;
                }
            };
        }
        Some(stage)
    }
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
        let (Some(outlet), Some(registration)) = (&this.outlet, &this.registration) else {
            return Poll::Ready(());
        };
        let connection = &registration.connection;
        let mut stage = mem::replace(&mut this.stage, Stage::Broken);
        if let Some(rest) = outlet.take_rest() {
            stage = Stage::Writing(Box::new(Writing::rest(rest, stage)));
        }
        let mut socket = outlet.socket();
        let mut turn = PlainTurn {
            socket: &mut socket,
            outlet,
            connection,
            host: &this.host,
            left: REQUESTS,
            ready: false,
        };
        let stage = match Self::claim(&turn, this.offered.as_ref(), stage, cx) {
            Ok(stage) => stage,
            Err(stage) => {
                drop(socket);
                return this.rest(stage);
            }
        };
        turn.connection.begin_turn();
        let Some(mut stage) = Self::obey(&mut turn, stage, cx) else { return Poll::Ready(()) };
        loop {
            let step = match stage {
                Stage::Idle | Stage::Unread(_) if turn.left == 0 => {
                    // Yields to other connections.
                    cx.waker().wake_by_ref();
                    turn.connection.end_turn();
                    drop(socket);
                    return this.rest(stage);
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
                    drop(socket);
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
                    drop(socket);
                    this.leave(unread, to);
                    return Poll::Ready(());
                }
                Flow::Wait(next) => {
                    if !matches!(next, Stage::Idle | Stage::Head(_)) {
                        turn.connection.end_turn();
                    }
                    if matches!(next, Stage::Idle) {
                        outlet.release(turn.socket);
                    }
                    drop(socket);
                    return this.rest(next);
                }
            }
        }
    }
}

/// Maximum requests per connection and turn, so that other tasks also run.
const REQUESTS: u32 = 32;

struct PlainTurn<'a, S: HttpService> {
    socket: &'a mut Socket,
    outlet: &'a Rc<Outlet>,
    connection: &'a Rc<Connection>,
    host: &'a LaneService<S>,
    left: u32,
    /// Whether the output buffer contains responses that go into the lane's batch if the client has
    /// sent nothing more.
    ready: bool,
}

impl<S: HttpService> PlainTurn<'_, S> {
    /// The stage after the client has closed its side and nothing is in flight.
    fn ended(&self) -> Stage<S> {
        match self.socket.is_tls() {
            false => Stage::Broken,
            // RFC 8446 section 6.1: each side announces that it is closing.
            true => Stage::Leaving(Closing::at_rest()),
        }
    }

    fn leave(&mut self, mut closing: Closing, cx: &mut Context<'_>) -> Flow<S> {
        match closing.poll(self.socket, self.connection, false, cx) {
            Poll::Pending => Flow::Wait(Stage::Leaving(closing)),
            Poll::Ready(_) => Flow::Go(Stage::Broken),
        }
    }

    /// Closing the socket then discards any data that the client has not read.
    fn reset(&mut self, cut: Cut) {
        self.connection.set_reset(cut);
        // Fails only if the socket is closed.
        let _ = self.socket.set_zero_linger();
    }
}

fn broken<S: HttpService>(error: &dyn Error) -> Stage<S> {
    tracing::debug!(%error, "a connection ended early");
    Stage::Broken
}
