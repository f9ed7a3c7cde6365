//! The TCP stream below TLS.

use std::io;
use std::net;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP stream that can move between lanes' event loops without touching the TLS state above it.
#[derive(Debug)]
pub(crate) struct Tcp(Option<TcpStream>);

impl Tcp {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Tcp(Some(stream))
    }

    /// Removes the stream from the lane's event loop. Every use fails until [`Tcp::enter`] is
    /// called.
    pub(super) fn leave(&mut self) -> io::Result<net::TcpStream> {
        self.0.take().ok_or_else(absent)?.into_std()
    }

    pub(super) fn enter(&mut self, stream: net::TcpStream) -> io::Result<()> {
        self.0 = Some(TcpStream::from_std(stream)?);
        Ok(())
    }

    pub(super) fn stream(&self) -> io::Result<&TcpStream> {
        self.0.as_ref().ok_or_else(absent)
    }

    fn get(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
        self.get_mut().0.as_mut().map(Pin::new).ok_or_else(absent)
    }
}

fn absent() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Tcp {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get()?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get()?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get()?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get()?.poll_shutdown(cx)
    }
}
