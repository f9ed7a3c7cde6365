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
    /// The state of TLS, whose stream is the one beside it.
    Tls(Box<TlsStream<Tcp>>, net::TcpStream),
}

impl StillSocket {
    /// Enters the event loop of the lane that this is called on, which hears of bytes that came
    /// in between as it hears of new ones (epoll_ctl(2): `EPOLL_CTL_ADD` reports what is ready).
    pub(crate) fn wake(self) -> io::Result<Socket> {
        Ok(match self {
            StillSocket::Plain(tcp) => Socket::Plain(TcpStream::from_std(tcp)?),
            StillSocket::Tls(mut tls, tcp) => {
                tls.get_mut().0.enter(tcp)?;
                Socket::Tls(tls)
            }
        })
    }

    /// Whether its end takes words: each side of TLS says that it ends (RFC 8446 section 6.1).
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
