//! A client's socket that no event loop watches.

use std::io;
use std::net;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::{Socket, Tcp};

/// A [`Socket`] at rest: it belongs to no lane, and any lane can wake it.
#[derive(Debug)]
pub(crate) enum StillSocket {
    Plain(net::TcpStream),
    /// The TLS state, and the stream that was taken out of it.
    Tls(Box<TlsStream<Tcp>>, net::TcpStream),
}

impl StillSocket {
    /// Registers with the event loop of the calling lane. Bytes that arrived in between are
    /// reported like new ones, because `EPOLL_CTL_ADD` reports what is ready (epoll_ctl(2)).
    pub(crate) fn wake(self) -> io::Result<Socket> {
        Ok(match self {
            StillSocket::Plain(tcp) => Socket::Plain(TcpStream::from_std(tcp)?),
            StillSocket::Tls(mut tls, tcp) => {
                tls.get_mut().0.enter(tcp)?;
                Socket::Tls(tls)
            }
        })
    }

    /// Whether closing sends data: each side of TLS sends an alert (RFC 8446 section 6.1).
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, StillSocket::Tls(..))
    }
}

impl AsFd for StillSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            StillSocket::Plain(tcp) | StillSocket::Tls(_, tcp) => tcp.as_fd(),
        }
    }
}
