//! The bytes of a connection, and which protocol they speak.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::Connection;

/// How an HTTP/2 client without TLS begins (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Room for the first read: an ordinary request's header in one go.
const FIRST_READ: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// A socket that gives back the bytes read to tell the protocol, and reports each arrival.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: TcpStream,
    prefix: Bytes,
    connection: Rc<Connection>,
    /// Whether our side is closed.
    shut: bool,
    /// Whether what the client still sends is to be read before the socket is closed.
    unread: bool,
}

impl Stream {
    /// Reads until the protocol is certain. `None`: the client went away first.
    pub(crate) async fn open(
        mut socket: TcpStream,
        connection: Rc<Connection>,
    ) -> io::Result<Option<(Protocol, Stream)>> {
        let mut prefix = BytesMut::with_capacity(FIRST_READ);
        let protocol = loop {
            if socket.read_buf(&mut prefix).await? == 0 {
                return Ok(None);
            }
            connection.received();
            match protocol_of(&prefix) {
                Some(protocol) => break protocol,
                None => continue,
            }
        };
        Ok(Some((
            protocol,
            Stream { socket, prefix: prefix.freeze(), connection, shut: false, unread: false },
        )))
    }
}

/// The protocol that begins with `bytes`; `None` while they fit both.
fn protocol_of(bytes: &[u8]) -> Option<Protocol> {
    if bytes.starts_with(PREFACE) {
        Some(Protocol::Http2)
    } else if PREFACE.starts_with(bytes) {
        None
    } else {
        Some(Protocol::Http1)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let n = self.prefix.len().min(buf.remaining());
            buf.put_slice(&self.prefix[..n]);
            self.prefix.advance(n);
            if self.prefix.is_empty() {
                self.prefix = Bytes::new(); // gives the buffer back
            }
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.connection.received();
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
        self.connection.writing();
        let n = ready!(Pin::new(&mut self.socket).poll_write(cx, buf))?;
        self.connection.wrote();
        Poll::Ready(Ok(n))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.connection.writing();
        let n = ready!(Pin::new(&mut self.socket).poll_write_vectored(cx, bufs))?;
        self.connection.wrote();
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes the socket only when its own buffer is empty.
        self.connection.flushed();
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            ready!(Pin::new(&mut self.socket).poll_shutdown(cx))?;
            self.shut = true;
            self.unread = self.connection.leave();
        }
        // Until the client closes, or the sweep ends it.
        let mut discarded = [0; 4096];
        while self.unread && !self.connection.is_abandoned() {
            let mut discarded = ReadBuf::new(&mut discarded);
            let read = ready!(Pin::new(&mut self.socket).poll_read(cx, &mut discarded));
            self.unread = read.is_ok() && !discarded.filled().is_empty();
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_is_told_as_soon_as_it_is_certain() {
        assert_eq!(protocol_of(b"GET / HTTP/1.1\r\n"), Some(Protocol::Http1));
        assert_eq!(protocol_of(b"P"), None);
        assert_eq!(protocol_of(b"PO"), Some(Protocol::Http1));
        assert_eq!(protocol_of(&PREFACE[..23]), None);
        assert_eq!(protocol_of(PREFACE), Some(Protocol::Http2));
        let with_settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
        assert_eq!(protocol_of(&with_settings), Some(Protocol::Http2));
    }
}
