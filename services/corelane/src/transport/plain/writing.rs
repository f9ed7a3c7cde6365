//! Writes to the socket of a plain connection, which both its own task and its lane's batch use.

use std::cell::{Cell, RefCell, RefMut};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::{Flow, PlainTurn, Stage, broken};
use crate::os::socket::Socket;
use crate::request::connection::Connection;
use crate::request::send_batch::{self, Sender};
use crate::request::service::HttpService;
use crate::request::unsent::{Held, LaneUnsent, counted};

/// Output that the socket has not accepted yet.
pub(super) struct Writing<S: HttpService> {
    out: Vec<u8>,
    /// Number of bytes of `out` that have been written.
    at: usize,
    part: Part,
    next: Stage<S>,
    /// Set while the output is waiting for the client.
    held: Option<Held>,
}

/// A body part that is not copied, and the bytes that follow it.
#[derive(Default)]
pub(super) struct Part {
    pub(super) data: Bytes,
    pub(super) tail: &'static [u8],
}

/// A connection's socket, shared with the lane's batch while the batch holds a response for it.
pub(super) struct Outlet {
    socket: RefCell<Socket>,
    connection: Rc<Connection>,
    /// Whether a response is in the batch or has left it without being fully accepted.
    is_behind: Cell<bool>,
    /// Bytes that the socket did not accept.
    rest: Cell<Option<Box<[u8]>>>,
}

impl Outlet {
    pub(super) fn new(socket: Socket, connection: &Rc<Connection>) -> Rc<Self> {
        let (socket, connection) = (RefCell::new(socket), Rc::clone(connection));
        Rc::new(Outlet { socket, connection, is_behind: Cell::default(), rest: Cell::default() })
    }

    /// The batch must not hold a response for the socket.
    pub(super) fn socket(&self) -> RefMut<'_, Socket> {
        self.socket.borrow_mut()
    }

    /// Sends the response in the batch, if any, and returns the bytes that the socket did not
    /// accept.
    #[inline]
    pub(super) fn take_rest(&self) -> Option<Box<[u8]>> {
        if self.is_behind.get() { self.catch_up() } else { None }
    }

    #[cold]
    fn catch_up(&self) -> Option<Box<[u8]>> {
        self.connection.lane().sends.flush();
        self.is_behind.set(false);
        self.rest.take()
    }

    pub(super) fn batch(self: &Rc<Self>, reply: &[u8]) {
        self.connection.writing();
        self.is_behind.set(true);
        self.connection.lane().sends.add(Rc::<Self>::clone(self), reply);
    }

    /// Records that the connection is waiting for a request. Other lanes may borrow the connection
    /// once its responses have been sent.
    pub(super) fn release(&self, socket: &Socket) {
        if !self.is_behind.get() {
            socket.release();
        }
    }

    pub(super) fn into_socket(self: Rc<Self>) -> Socket {
        let socket = Rc::into_inner(self).expect("the batch has no reply").socket.into_inner();
        socket.unshare()
    }

    /// Whether a response is in the batch or has left it without being fully accepted.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// Whether other lanes may borrow the socket now, or `None` if they never may.
    pub(super) fn is_released(&self) -> Option<bool> {
        self.socket.borrow().is_released()
    }

    fn poll_send(&self, reply: &mut &[u8]) -> Poll<()> {
        // The connection's task waits instead.
        let cx = &mut Context::from_waker(Waker::noop());
        let mut socket = self.socket.borrow_mut();
        while !reply.is_empty() {
            match Pin::new(&mut *socket).poll_write(cx, reply) {
                Poll::Ready(Ok(taken)) if taken > 0 => {
                    *reply = &reply[taken..];
                    self.connection.wrote(taken);
                }
                // The error occurs again when the task writes, which then ends the connection.
                _ => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl Sender for Outlet {
    fn send(&self, mut reply: &[u8]) {
        match self.poll_send(&mut reply) {
            Poll::Ready(()) => {
                self.is_behind.set(false);
                self.connection.flushed();
                self.socket.borrow().release();
            }
            Poll::Pending => {
                self.rest.set(Some(reply.into()));
                self.connection.wake();
            }
        }
    }
}

impl<S: HttpService> PlainTurn<'_, S> {
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

    /// Whether these responses may wait for other responses in the same turn.
    fn may_wait(&self, out: &[u8]) -> bool {
        let lane = &self.host.lane;
        // A handshake may take a millisecond. Either all connections on a port use TLS or none of
        // them do.
        !self.socket.is_tls()
            && (1..=send_batch::REPLY).contains(&out.len())
            && self.left > 0
            // If the check is raised, the connection may have to leave in this turn.
            && !lane.polls.is_raised()
            && lane.sends.is_worthwhile(lane.shared().sleeps())
    }

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

    // This function and `poll_writing` are always inlined, which saves 17 instructions per request.
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
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.tail.is_empty()
    }
}

impl<S: HttpService> Writing<S> {
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

    /// The socket is full in this turn, so the next stage starts in another one.
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
