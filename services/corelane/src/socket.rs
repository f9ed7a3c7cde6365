//! A client's socket, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A socket whose handshake, if it needs one, is done.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    /// Boxed: the state of TLS takes more than a kilobyte, which a plain connection must not pay.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of whichever it is.
macro_rules! each {
    ($socket:expr, $io:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain(io) => {
                let $io = Pin::new(io);
                $call
            }
            Socket::Tls(io) => {
                let $io = Pin::new(io.as_mut());
                $call
            }
        }
    };
}

impl Socket {
    /// The bytes as the network has them.
    pub(crate) fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Socket::Plain(io) => io,
            Socket::Tls(io) => io.get_mut().0,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self, io => io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(io) => io.is_write_vectored(),
            Socket::Tls(io) => io.is_write_vectored(),
        }
    }

    /// Ready when the kernel has every byte: TLS keeps records that the socket had no room for.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_flush(cx))
    }

    /// Ends our side; with TLS after a `close_notify` (RFC 8446 section 6.1).
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_shutdown(cx))
    }
}
