//! The socket of a plain connection, to which its own task and its lane's batch send.

use std::cell::{Cell, RefCell, RefMut};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

use crate::os::socket::Socket;
use crate::request::connection::Connection;
use crate::request::send_batch::Sender;

/// The socket of a connection. The lane's batch shares it while it has a reply for it.
pub(super) struct Outlet {
    socket: RefCell<Socket>,
    connection: Rc<Connection>,
    /// A reply is in the batch, or left it and was not accepted whole.
    is_behind: Cell<bool>,
    /// What the socket did not accept.
    rest: Cell<Option<Box<[u8]>>>,
}

impl Outlet {
    pub(super) fn new(socket: Socket, connection: &Rc<Connection>) -> Rc<Self> {
        let (socket, connection) = (RefCell::new(socket), Rc::clone(connection));
        Rc::new(Outlet { socket, connection, is_behind: Cell::default(), rest: Cell::default() })
    }

    /// Lends the socket to the connection's task. The batch must have no reply of it.
    pub(super) fn socket(&self) -> RefMut<'_, Socket> {
        self.socket.borrow_mut()
    }

    /// Sends the reply in the batch, if there is one, and returns what the socket did not accept.
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

    /// Leaves a reply to the lane's batch.
    pub(super) fn batch(self: &Rc<Self>, reply: &[u8]) {
        self.connection.writing();
        self.is_behind.set(true);
        self.connection.lane().sends.add(Rc::<Self>::clone(self), reply);
    }

    /// The connection waits for a request. Other lanes may borrow it once its replies are sent.
    pub(super) fn release(&self, socket: &Socket) {
        if !self.is_behind.get() {
            socket.release();
        }
    }

    /// Gives the socket away, which is not offered. No reply may be in the batch.
    pub(super) fn into_socket(self: Rc<Self>) -> Socket {
        let socket = Rc::into_inner(self).expect("the batch has no reply").socket.into_inner();
        socket.unshare()
    }

    /// Whether a reply is in the batch, or left it and was not accepted whole.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// Whether other lanes may borrow the socket: `None` never, false not now.
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
                // An error occurs again when the task writes, and ends the connection there.
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
