//! A client socket, with or without TLS.

use std::io;
#[cfg(feature = "tls")]
use std::io::Write;
use std::net;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::server::TlsStream;

mod shared;
#[cfg(feature = "tls")]
mod tcp;

pub(crate) use shared::{Claim, SharedSocket};

/// A [`Socket`] at rest: no lane owns it, and any lane can wake it.
#[derive(Debug)]
pub(crate) enum StillSocket {
    Plain(net::TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Tcp>>, net::TcpStream),
}

impl StillSocket {
    /// Registers the socket with the calling lane's event loop. `EPOLL_CTL_ADD` also reports bytes
    /// that have arrived already (epoll_ctl(2)).
    pub(crate) fn wake(self) -> io::Result<Socket> {
        Ok(match self {
            StillSocket::Plain(tcp) => Socket::Plain(TcpStream::from_std(tcp)?),
            #[cfg(feature = "tls")]
            StillSocket::Tls(mut tls, tcp) => {
                tls.get_mut().0.enter(tcp)?;
                Socket::Tls(tls)
            }
        })
    }

    pub(crate) fn peer(&self) -> io::Result<Option<net::SocketAddr>> {
        Ok(SockRef::from(&self.as_fd()).peer_addr()?.as_socket())
    }

    /// Closing TLS sends data: each side sends an alert (RFC 8446 section 6.1).
    pub(crate) fn is_tls(&self) -> bool {
        !matches!(self, StillSocket::Plain(_))
    }
}

impl AsFd for StillSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            StillSocket::Plain(tcp) => tcp.as_fd(),
            #[cfg(feature = "tls")]
            StillSocket::Tls(_, tcp) => tcp.as_fd(),
        }
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests;

#[cfg(feature = "tls")]
pub(crate) use tcp::Tcp;

/// A socket, after its TLS handshake if there is one.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    /// A `Plain` socket that other lanes may borrow.
    Shared(Arc<SharedSocket>),
    /// Boxed, because the TLS state exceeds a kilobyte and would enlarge plain connections.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Tcp>>),
}

macro_rules! each {
    ($socket:expr, $io:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain(io) => {
                let $io = Pin::new(io);
                $call
            }
            Socket::Shared(io) => {
                let mut io = &**io;
                let $io = Pin::new(&mut io);
                $call
            }
            #[cfg(feature = "tls")]
            Socket::Tls(io) => {
                let $io = Pin::new(io.as_mut());
                $call
            }
        }
    };
}

impl Socket {
    /// Lets other lanes borrow the socket. TLS sockets cannot be shared, because their state stays
    /// with the lane.
    pub(crate) fn share(self) -> (Socket, Option<Arc<SharedSocket>>) {
        match self {
            Socket::Plain(tcp) => {
                let shared = Arc::new(SharedSocket::new(tcp));
                (Socket::Shared(Arc::clone(&shared)), Some(shared))
            }
            // The lane that gave the socket back has not dropped it yet.
            Socket::Shared(shared) => (Socket::Shared(Arc::clone(&shared)), Some(shared)),
            #[cfg(feature = "tls")]
            Socket::Tls(_) => (self, None),
        }
    }

    /// Undoes [`Socket::share`] unless another lane still holds the socket.
    pub(crate) fn unshare(self) -> Socket {
        match self {
            Socket::Shared(shared) => Arc::try_unwrap(shared)
                .map_or_else(Socket::Shared, |shared| Socket::Plain(shared.into_inner())),
            other => other,
        }
    }

    /// Claims the socket for its own lane.
    pub(crate) fn claim(&self) -> Claim {
        match self {
            Socket::Shared(shared) => shared.claim(),
            _ => Claim::Own,
        }
    }

    /// Whether other lanes may borrow the socket now, or `None` if they can never borrow it.
    pub(crate) fn is_released(&self) -> Option<bool> {
        match self {
            Socket::Shared(shared) => Some(!shared.is_in_use()),
            _ => None,
        }
    }

    /// Releases the socket, which is waiting for a request.
    pub(crate) fn release(&self) {
        if let Socket::Shared(shared) = self {
            shared.release();
        }
    }

    /// Closing TLS sends data: each side sends an alert (RFC 8446 section 6.1).
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Socket::Plain(_) | Socket::Shared(_) => false,
            #[cfg(feature = "tls")]
            Socket::Tls(_) => true,
        }
    }

    /// Whether TLS holds no state that would not make the socket readable: unread decrypted bytes,
    /// the end or an error of the stream, or unsent records. A shared socket is not quiet.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match self {
            Socket::Plain(_) => true,
            Socket::Shared(_) => false,
            #[cfg(feature = "tls")]
            Socket::Tls(tls) => {
                let session = tls.get_mut().1;
                // `wants_read` implies that all decrypted bytes were read and no `close_notify`
                // arrived. If the session has failed, its writer returns the error.
                session.wants_read()
                    && !session.wants_write()
                    && !session.is_handshaking()
                    && session.writer().flush().is_ok()
            }
        }
    }

    /// Removes the socket and its TLS state from the lane's event loop. A socket that is not quiet
    /// must be woken at once.
    pub(crate) fn rest(self) -> io::Result<StillSocket> {
        Ok(match self {
            Socket::Plain(tcp) => StillSocket::Plain(tcp.into_std()?),
            Socket::Shared(_) => return Err(io::ErrorKind::ResourceBusy.into()),
            #[cfg(feature = "tls")]
            Socket::Tls(mut tls) => {
                let tcp = tls.get_mut().0.leave()?;
                StillSocket::Tls(tls, tcp)
            }
        })
    }

    /// Makes the socket discard data that the client has not received when it is closed.
    pub(crate) fn set_zero_linger(&self) -> io::Result<()> {
        match self {
            Socket::Plain(tcp) => tcp.set_zero_linger(),
            Socket::Shared(shared) => shared.tcp().set_zero_linger(),
            #[cfg(feature = "tls")]
            Socket::Tls(tls) => tls.get_ref().0.stream()?.set_zero_linger(),
        }
    }

    /// Ends both directions and discards data that the client has not received.
    pub(crate) fn cut(&self) -> io::Result<()> {
        let cut = |tcp: &TcpStream| {
            tcp.set_zero_linger()?;
            socket2::SockRef::from(tcp).shutdown(net::Shutdown::Both)
        };
        match self {
            Socket::Plain(tcp) => cut(tcp),
            Socket::Shared(shared) => cut(shared.tcp()),
            #[cfg(feature = "tls")]
            Socket::Tls(tls) => cut(tls.get_ref().0.stream()?),
        }
    }

    /// Reads raw bytes from the network.
    pub(crate) fn poll_read_raw(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Socket::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Socket::Shared(shared) => Pin::new(&mut &**shared).poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Socket::Tls(tls) => Pin::new(tls.get_mut().0).poll_read(cx, buf),
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
            Socket::Shared(_) => true,
            #[cfg(feature = "tls")]
            Socket::Tls(io) => io.is_write_vectored(),
        }
    }

    /// Ready when the kernel has every byte. TLS buffers records if the socket is full.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_flush(cx))
    }

    /// Closes the server's side. With TLS, sends a `close_notify` first (RFC 8446 section 6.1).
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, io => io.poll_shutdown(cx))
    }
}
