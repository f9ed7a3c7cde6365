//! A socket that another lane may borrow while its own lane is blocked.

use std::io::{self, IoSlice};
use std::net;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// Its own lane is using the socket. Only that lane enters and leaves this state.
const IN_USE: u8 = 0;
const IDLE: u8 = 1;
const LENT: u8 = 2;
/// The socket was lent and is waiting for a request again.
const BACK: u8 = 3;
/// The socket was lent, and its own lane must continue with it.
const DUE: u8 = 4;

/// A plain socket registered with its lane's event loop. Another thread can duplicate it.
///
/// ```text
///   in use ──release──► idle ──lend──► lent ──give back──► back, due ──claim──► in use
///     ▲────────claim──────┘             ▲────────lend───────┘ (back)
/// ```
#[derive(Debug)]
pub(crate) struct SharedSocket {
    tcp: TcpStream,
    state: AtomicU8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Own,
    /// The lane may use the socket, which was lent in the meantime.
    Back,
    Lent,
}

impl SharedSocket {
    pub(super) fn new(tcp: TcpStream) -> Self {
        SharedSocket { tcp, state: AtomicU8::new(IN_USE) }
    }

    pub(super) fn into_inner(self) -> TcpStream {
        self.tcp
    }

    /// Claims the socket for its lane, which is about to use it. Only the lane may call this.
    pub(crate) fn claim(&self) -> Claim {
        if self.is_in_use() {
            return Claim::Own;
        }
        let take = |from| {
            self.state.compare_exchange(from, IN_USE, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        match () {
            () if take(IDLE) => Claim::Own,
            () if take(BACK) || take(DUE) => Claim::Back,
            () => Claim::Lent,
        }
    }

    /// Releases the socket to wait for a request: all input is read and all output is written. Call
    /// this only on the lane's thread.
    pub(crate) fn release(&self) {
        debug_assert!(self.is_in_use(), "its lane uses it");
        self.state.store(IDLE, Ordering::Release);
    }

    /// No other thread can change the result.
    pub(crate) fn is_in_use(&self) -> bool {
        self.state.load(Ordering::Relaxed) == IN_USE
    }

    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), IDLE | BACK)
    }

    /// Lends an idle socket. Returns a duplicate for another thread's event loop.
    pub(crate) fn lend(&self) -> Option<net::TcpStream> {
        let before = self.state.load(Ordering::Relaxed);
        if !matches!(before, IDLE | BACK) {
            return None;
        }
        // This call comes first, because if it failed after the lending, the socket's lane would
        // stay asleep.
        let duplicate = self.tcp.as_fd().try_clone_to_owned().ok()?;
        let taken = self.state.compare_exchange(before, LENT, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| duplicate.into())
    }

    /// Ends a loan. `waits` means that the socket is waiting for a request and can be lent again.
    pub(crate) fn give_back(&self, waits: bool) {
        debug_assert_eq!(self.state.load(Ordering::Relaxed), LENT, "another lane has it");
        self.state.store(if waits { BACK } else { DUE }, Ordering::Release);
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }
}

impl AsFd for SharedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

/// Reads and writes for the owning lane, like tokio's type, which cannot be both read and shared.
/// If a read fills only part of the buffer, the socket is empty, so the next read needs no system
/// call.
impl AsyncRead for &SharedSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let tcp = &self.tcp;
        loop {
            ready!(tcp.poll_read_ready(cx))?;
            let mut came = None;
            let read = tcp.try_io(Interest::READABLE, || {
                let space = buf.initialize_unfilled();
                let room = space.len();
                let (length, _) = recv(tcp, space, RecvFlags::DONTWAIT)?;
                came = Some(length);
                let is_empty = length > 0 && length < room;
                if is_empty { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match (came, read) {
                (Some(length), _) => {
                    buf.advance(length);
                    return Poll::Ready(Ok(()));
                }
                (None, Err(error)) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Poll::Ready(Err(error));
                }
                (None, _) => {}
            }
        }
    }
}

impl SharedSocket {
    fn poll_try(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tcp.poll_write_ready(cx))?;
            match write(&self.tcp) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for &SharedSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |tcp| tcp.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try(cx, |tcp| tcp.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.tcp).shutdown(net::Shutdown::Write))
    }
}
