//! The byte stream that hyper reads and writes.

use std::io;
use std::mem::{self, MaybeUninit};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::message::framing::{Fault, Framing, InputEnd};
use crate::metrics::Refusal;
use crate::os::socket::Socket;
use crate::request::connection::{Closing, Connection, Order};
use crate::transport::connections::Registration;
use crate::transport::final_response::{final_response, refused_head};

/// Maximum bytes read ahead while a request is waiting. If more input than that precedes a close,
/// the close is noticed later.
const READ_AHEAD: usize = 2048;

/// Responses up to this size are copied into one buffer. A vectored write would cost more, because
/// the kernel copies and checks the vector first (send(2), writev(2)).
const JOINED: usize = 512;

/// A socket for hyper. It first returns bytes that were read earlier to detect the protocol or a
/// disconnect, and it reports each arrival to its connection. On HTTP/1.1, it gives hyper one
/// message at a time, and only complete heads. It ends the input at ambiguous framing and at an
/// oversized head, and replaces hyper's response to a rejected head with Corelane's. After an
/// upgrade, it passes the other protocol through.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    /// Bytes that were read and not tracked.
    prefix: Bytes,
    connection: Rc<Connection>,
    framing: Framing,
    /// The head while it is arriving in parts, and then the part that hyper has not read.
    head: BytesMut,
    ended: bool,
    /// Set if the stream was cut.
    cut: Option<InputEnd>,
    instead: Option<Bytes>,
    closing: Closing,
    /// The connection is open until hyper or the service drops its stream.
    _registration: Registration,
}

impl Stream {
    /// Creates a stream that starts with `prefix`, which was already read from the socket.
    pub(crate) fn new(socket: Socket, registration: Registration, prefix: Bytes) -> Stream {
        let connection = Rc::clone(&registration.connection);
        let allowed = connection.lane().limits.header_bytes;
        Stream {
            socket,
            prefix,
            connection,
            framing: Framing::new(allowed),
            head: BytesMut::new(),
            ended: false,
            cut: None,
            instead: None,
            closing: Closing::default(),
            _registration: registration,
        }
    }

    /// Whether the response to the request being read must have no body.
    pub(crate) fn asks_head(&mut self) -> bool {
        // If hyper was never polled, the prefix was not read.
        let _ = self.framing.follow(&mem::take(&mut self.prefix));
        self.framing.asks_head()
    }

    /// Whether the bytes belong to HTTP/1.1.
    fn is_tracked(&self) -> bool {
        !self.connection.is_multiplexed() && !self.connection.is_upgraded()
    }

    /// Reads into `buf`, from the prefix and then from the socket. On HTTP/1.1, it stops at the end
    /// of the current message, and the bytes after the message become the prefix.
    fn poll_chunk(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (before, is_tracked) = (buf.filled().len(), self.is_tracked());
        let was_in_body = self.framing.in_body();
        let mut follow = |chunk: &[u8]| match is_tracked {
            true => self.framing.follow(chunk),
            false => Ok(chunk.len()),
        };
        let followed = if self.prefix.is_empty() {
            ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
            let chunk = &buf.filled()[before..];
            if chunk.is_empty() {
                self.ended = true;
                return Poll::Ready(Ok(()));
            }
            let followed = follow(chunk);
            let passed = followed.unwrap_or_else(|cut| cut.at);
            self.prefix = Bytes::copy_from_slice(&chunk[passed..]);
            buf.set_filled(before + passed);
            followed
        } else {
            let followed = follow(&self.prefix[..self.prefix.len().min(buf.remaining())]);
            let passed = followed.unwrap_or_else(|cut| cut.at);
            buf.put_slice(&self.prefix.split_to(passed));
            if self.prefix.is_empty() {
                self.prefix = Bytes::new(); // gives the buffer back
            }
            followed
        };
        match was_in_body {
            true => self.connection.received_body(),
            false => self.connection.received(),
        }
        if let Err(cut) = followed {
            self.end_input(cut);
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the input before hyper has read it.
    fn end_input(&mut self, cut: InputEnd) {
        self.connection.lane().metrics().refuse(match cut.fault {
            Fault::Ambiguous(_) => Refusal::AmbiguousFraming,
            Fault::Invalid(_) => Refusal::BadRequest,
            Fault::HeadTooLarge => Refusal::HeaderTooLarge,
        });
        self.connection.set_cut_off();
        self.prefix = Bytes::new();
        self.cut = Some(cut);
    }

    /// Hands hyper the bytes that are ready and fit into the buffer. Returns false if there are no
    /// such bytes.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let has_ended = self.ended || self.cut.is_some();
        if !self.head.is_empty() {
            let is_whole = has_ended || !self.framing.in_head();
            if is_whole {
                let bytes = self.head.len().min(buf.remaining());
                buf.put_slice(&self.head.split_to(bytes));
            }
            return is_whole;
        }
        if let Some(cut) = &mut self.cut {
            let (now, later) = cut.tail.split_at(cut.tail.len().min(buf.remaining()));
            buf.put_slice(now);
            cut.tail = later;
        }
        has_ended
    }

    /// Writes Corelane's response instead of `hypers`. `hypers` counts as written once Corelane's
    /// response has been written.
    fn poll_instead(
        &mut self,
        cx: &mut Context<'_>,
        hypers: &[u8],
        length: usize,
    ) -> Poll<io::Result<usize>> {
        let words = match &mut self.instead {
            Some(words) => words,
            None => {
                // `hyper::Error` also names the fault, but only after this response has been
                // written.
                let status = status_of(hypers).unwrap_or(StatusCode::BAD_REQUEST);
                let fault = self.cut.map(|cut| cut.fault);
                let problem = refused_head(&self.connection.lane().limits, status, fault);
                let with_body = !self.framing.asks_head();
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

/// Writes bytes of another protocol. The client must read some of the bytes within the write
/// timeout.
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
        // No other order can end the wait here.
        let cut = loop {
            if let Order::Reset(cut) = ready!(connection.poll_order(cx)) {
                break cut;
            }
        };
        connection.set_reset(cut);
        // Readers of the stream see that it has ended. Fails only if the socket is closed.
        let _ = socket.cut();
    }
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

fn status_of(reply: &[u8]) -> Option<StatusCode> {
    let rest = reply.strip_prefix(b"HTTP/1.1 ").or_else(|| reply.strip_prefix(b"HTTP/1.0 "))?;
    StatusCode::from_bytes(rest.first_chunk::<3>()?).ok()
}

impl Drop for Stream {
    fn drop(&mut self) {
        // HTTP/2 requests may outlive the stream.
        self.connection.client.forget_socket();
        if self.connection.is_reset() {
            // Without this option, the kernel keeps unread bytes for minutes (tcp(7), SO_LINGER in
            // socket(7)). Fails only if the socket is closed.
            let _ = self.socket.set_zero_linger();
        }
    }
}

/// Reads up to [`READ_AHEAD`] bytes while a request is waiting for its service, in order to detect
/// a disconnect. Returns whether any bytes arrived.
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
            // rustls returns this error for a stream that ends without `close_notify` (RFC 8446
            // section 6.1).
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
        let before = buf.filled().len();
        while !self.give(buf) {
            let polled = self.poll_chunk(cx, buf);
            if polled.is_pending() && self.framing.is_between() {
                self.connection.await_request();
            }
            ready!(polled)?;
            let chunk = &buf.filled()[before..];
            if self.head.is_empty() && !self.framing.in_head() && !chunk.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.head.extend_from_slice(chunk);
            buf.set_filled(before);
        }
        if self.head.is_empty() {
            self.head = BytesMut::new(); // gives the buffer back
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
        if self.connection.hyper_writing() {
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
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if self.connection.hyper_writing() {
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
        self.connection.hyper_flushed();
        let Stream { socket, connection, prefix, .. } = &mut *self;
        if connection.waits_for_service() && read_ahead(socket, connection, prefix, cx) {
            // hyper may already be waiting for these bytes, and the socket will not wake it.
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stream { socket, connection, closing, instead, cut, .. } = &mut *self;
        if connection.is_upgraded() {
            return poll_upgraded(socket, connection, cx, AsyncWrite::poll_shutdown);
        }
        closing.poll(socket, connection, instead.is_some() || cut.is_some(), cx)
    }
}
