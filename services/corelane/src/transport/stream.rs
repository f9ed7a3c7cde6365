//! The byte stream that hyper reads and writes.

use std::io;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::message::framing::{Cut, Framing};
use crate::metrics::Refusal;
use crate::os::socket::Socket;
use crate::request::connection::{Closing, Connection, Order};
use crate::transport::connections::Registration;
use crate::transport::final_response::{final_response, refused_head};

/// Maximum bytes read ahead while a request waits. A close behind more input is noticed later.
const READ_AHEAD: usize = 2048;

/// A reply of up to this size is copied into one buffer and sent. That is cheaper than a vectored
/// write, for which the kernel copies and checks the vector first (send(2), writev(2)).
const JOINED: usize = 512;

/// A socket that returns bytes that were read before hyper requested them: to detect the protocol,
/// or to notice a disconnect. It reports each arrival to its connection. On HTTP/1.1 it ends the
/// input where the framing is ambiguous. It also replaces hyper's own reply to a rejected head with
/// ours. After an upgrade it passes the bytes of the other protocol through.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    prefix: Bytes,
    connection: Rc<Connection>,
    framing: Framing,
    /// Requests that the connection had before this stream.
    before: u64,
    /// Set where the stream was cut.
    cut: Option<Cut>,
    /// The unwritten part of our reply that replaces hyper's.
    instead: Option<Bytes>,
    closing: Closing,
    /// The connection is open until its stream is dropped, by hyper or by the service.
    _registration: Registration,
}

impl Stream {
    /// A stream that starts with `prefix`, which was already read from the socket.
    pub(crate) fn new(socket: Socket, registration: Registration, prefix: Bytes) -> Stream {
        let connection = Rc::clone(&registration.connection);
        Stream {
            socket,
            prefix,
            before: connection.begun(),
            connection,
            framing: Framing::new(),
            cut: None,
            instead: None,
            closing: Closing::default(),
            _registration: registration,
        }
    }

    /// Whether the request whose head is being read must get a reply without a body.
    pub(crate) fn asks_head(&mut self) -> bool {
        // If hyper was never polled, it has not read the prefix.
        self.framing.follow(&mem::take(&mut self.prefix));
        self.framing.asks_head(self.dispatched())
    }

    /// Requests that hyper has dispatched from this stream.
    fn dispatched(&self) -> u64 {
        self.connection.begun() - self.before
    }

    /// Tracks the bytes of `buf` after the first `known`, and removes those that hyper must not
    /// read.
    fn follow(&mut self, buf: &mut ReadBuf<'_>, known: usize) {
        if self.connection.is_multiplexed() || self.connection.is_upgraded() {
            return;
        }
        let cut = self.framing.follow(&buf.filled()[known..]);
        let Some(cut) = cut else { return };
        buf.set_filled(known + cut.at);
        self.connection.lane().metrics().refuse(Refusal::AmbiguousFraming);
        self.connection.set_ambiguous();
        self.cut = Some(cut).map(|cut| end(cut, buf));
    }

    /// Writes our reply instead of `hypers`, which counts as written when ours is.
    fn poll_instead(
        &mut self,
        cx: &mut Context<'_>,
        hypers: &[u8],
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let words = match &mut self.instead {
            Some(words) => words,
            None => {
                // `hyper::Error` names the fault too, but only after this was written.
                let status = status_of(hypers).unwrap_or(StatusCode::BAD_REQUEST);
                let ambiguity = self.cut.map(|cut| cut.reason);
                let problem = refused_head(status, ambiguity, self.framing.spoken());
                let with_body = !self.framing.asks_head(self.dispatched());
                let words = problem
                    .map(|problem| final_response(self.connection.lane(), problem, with_body));
                self.instead.insert(words.unwrap_or_default().into())
            }
        };
        while !words.is_empty() {
            let n = ready!(Pin::new(&mut self.socket).poll_write(cx, words))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.connection.wrote(n);
            words.advance(n);
        }
        Poll::Ready(Ok(length))
    }
}

/// Writes bytes of another protocol. The client has to read some of them within the write timeout.
fn poll_upgraded<T>(
    socket: &mut Socket,
    connection: &Connection,
    cx: &mut Context<'_>,
    write: impl FnOnce(Pin<&mut Socket>, &mut Context<'_>) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    if !connection.is_reset() {
        let polled = write(Pin::new(socket), cx);
        if polled.is_ready() {
            connection.wrote_upgraded();
            return polled;
        }
        connection.writing();
        // No other order has a meaning here.
        while ready!(connection.poll_order(cx)) != Order::Reset {}
        connection.set_reset();
        // A reader of the stream sees its end. Fails only if the socket is closed.
        let _ = socket.cut();
    }
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

/// The status in a reply's status line (RFC 9112 section 4).
fn status_of(reply: &[u8]) -> Option<StatusCode> {
    let rest = reply.strip_prefix(b"HTTP/1.1 ").or_else(|| reply.strip_prefix(b"HTTP/1.0 "))?;
    StatusCode::from_bytes(rest.first_chunk::<3>()?).ok()
}

/// Gives hyper what fits of the end of a stream that was cut; what is left.
fn end(mut cut: Cut, buf: &mut ReadBuf<'_>) -> Cut {
    let (now, later) = cut.tail.split_at(cut.tail.len().min(buf.remaining()));
    buf.put_slice(now);
    cut.tail = later;
    cut
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Requests over HTTP/2 may outlive it.
        self.connection.client.forget_socket();
        if self.connection.is_reset() {
            // Otherwise the kernel keeps unread bytes for minutes (tcp(7), SO_LINGER in
            // socket(7)). Fails only if the socket is closed.
            let _ = self.socket.set_zero_linger();
        }
    }
}

/// Reads input while a request waits for its service, to notice that the client disconnects. Keeps
/// up to [`READ_AHEAD`] bytes. Returns whether anything arrived.
pub(crate) fn read_ahead(
    socket: &mut Socket,
    connection: &Connection,
    before: &mut Bytes,
    cx: &mut Context<'_>,
) -> bool {
    let mut came = false;
    while before.len() < READ_AHEAD {
        let mut space = [MaybeUninit::uninit(); READ_AHEAD];
        let room = READ_AHEAD - before.len();
        let mut ahead = ReadBuf::uninit(&mut space[..room]);
        let Poll::Ready(read) = Pin::new(&mut *socket).poll_read(cx, &mut ahead) else {
            break;
        };
        match read {
            Ok(()) if !ahead.filled().is_empty() => {}
            // The error of rustls for an end without a `close_notify` (RFC 8446 section 6.1).
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                connection.set_gone();
                break;
            }
            _ => {
                connection.set_ended();
                break;
            }
        }
        *before = [before, ahead.filled()].concat().into();
        came = true;
    }
    came
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(cut) = self.cut {
            self.cut = Some(end(cut, buf));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        if !self.prefix.is_empty() {
            let n = self.prefix.len().min(buf.remaining());
            buf.put_slice(&self.prefix[..n]);
            self.prefix.advance(n);
            if self.prefix.is_empty() {
                self.prefix = Bytes::new(); // gives the buffer back
            }
            self.follow(buf, before);
            self.connection.received();
            return Poll::Ready(Ok(()));
        }
        let polled = Pin::new(&mut self.socket).poll_read(cx, buf);
        ready!(polled)?;
        if buf.filled().len() > before {
            self.connection.received();
            self.follow(buf, before);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Stream { socket, connection, .. } = &mut *self;
        if connection.is_upgraded() {
            return poll_upgraded(socket, connection, cx, |socket, cx| socket.poll_write(cx, buf));
        }
        self.connection.writing();
        if self.connection.is_unasked() {
            return self.poll_instead(cx, buf, buf.len());
        }
        let n = ready!(Pin::new(&mut self.socket).poll_write(cx, buf))?;
        self.connection.wrote(n);
        Poll::Ready(Ok(n))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Stream { socket, connection, .. } = &mut *self;
        if connection.is_upgraded() {
            return poll_upgraded(socket, connection, cx, |socket, cx| {
                socket.poll_write_vectored(cx, bufs)
            });
        }
        self.connection.writing();
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if self.connection.is_unasked() {
            let first = bufs.iter().find(|buf| !buf.is_empty());
            return self.poll_instead(cx, first.map_or(&[], |buf| buf), length);
        }
        let n = if length <= JOINED {
            let mut space = [MaybeUninit::uninit(); JOINED];
            let mut joined = ReadBuf::uninit(&mut space);
            bufs.iter().for_each(|buf| joined.put_slice(buf));
            ready!(Pin::new(&mut self.socket).poll_write(cx, joined.filled()))?
        } else {
            ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?
        };
        self.connection.wrote(n);
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream { socket, connection, .. } = &mut *self;
        if connection.is_upgraded() {
            return poll_upgraded(socket, connection, cx, AsyncWrite::poll_flush);
        }
        // hyper flushes the socket only when its own buffer is empty, and each time that it is
        // polled.
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        self.connection.flushed();
        let Stream { socket, connection, prefix, .. } = &mut *self;
        if connection.waits_for_service() && read_ahead(socket, connection, prefix, cx) {
            // hyper may wait for these very bytes by now, and the socket will not tell it.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream { socket, connection, closing, instead, cut, .. } = &mut *self;
        if connection.is_upgraded() {
            return poll_upgraded(socket, connection, cx, AsyncWrite::poll_shutdown);
        }
        if instead.is_some() || cut.is_some() {
            connection.set_refused();
        }
        closing.poll(socket, connection, cx)
    }
}
