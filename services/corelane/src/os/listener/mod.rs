//! Listening sockets, and the limit on open files.
//!
//! Sockets of every family use the standard library's TCP types, which only own a descriptor.
//! accept, recv, send, shutdown and poll are the same for all stream sockets, and TCP options fail
//! on other sockets without effect.

mod inherited;
mod unix;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SocketFlags, acceptfrom_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::base::error::Error;
use crate::base::listen::{Endpoint, Listen};
pub(crate) use unix::SocketFile;

#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) listen: Listen,
    /// One socket for each lane, in one `SO_REUSEPORT` group, or one socket for all lanes.
    pub(crate) sockets: Vec<TcpListener>,
    /// Removes the file of a Unix socket when dropped.
    pub(crate) file: Option<SocketFile>,
}

/// Unsent response bytes that the kernel may buffer (`TCP_NOTSENT_LOWAT` in tcp(7)). By default,
/// the kernel buffers up to 4 MiB for a client that reads nothing, and copying that much takes a
/// lane a millisecond. A limit smaller than a piece of a file would make the lane wake up more
/// often.
const UNSENT: u32 = 64 << 10;

/// Opens a listener, which has `sockets` sockets for a TCP address.
pub(crate) fn open(listen: Listen, backlog: u32, sockets: usize) -> Result<Port, Error> {
    let failed = |source| Error::Listen { listen: listen.to_string(), source };
    let (sockets, file) = match &listen.endpoint {
        Endpoint::Tcp(address) if sockets > 1 => (bind_lanes(*address, backlog, sockets)?, None),
        Endpoint::Tcp(address) => (vec![bind(*address, backlog, false)?], None),
        Endpoint::Unix { path, mode } => {
            let (socket, file) = unix::bind(path, *mode, bounded(backlog)).map_err(failed)?;
            (vec![socket], Some(file))
        }
        Endpoint::Inherited(name) => (vec![inherited::take(name).map_err(failed)?], None),
    };
    for socket in &sockets {
        // Connections inherit the option from their listener. Unix sockets do not have this option.
        let _ = SockRef::from(socket).set_tcp_notsent_lowat(UNSENT);
    }
    Ok(Port { listen, sockets, file })
}

impl Port {
    /// `None` for a Unix socket.
    pub(crate) fn address(&self) -> io::Result<Option<SocketAddr>> {
        let address = SockRef::from(&self.sockets[0]).local_addr()?;
        Ok(address.as_socket())
    }

    /// Whether other processes may also hold this socket. A filter would affect them too.
    pub(crate) fn is_inherited(&self) -> bool {
        matches!(self.listen.endpoint, Endpoint::Inherited(_))
    }
}

/// Binds one listener per lane to `address` in one `SO_REUSEPORT` group (socket(7)).
pub(crate) fn bind_lanes(
    address: SocketAddr,
    backlog: u32,
    lanes: usize,
) -> Result<Vec<TcpListener>, Error> {
    // Any process of the same user can silently join a reuseport group. Binding once without the
    // option detects a port that another server uses.
    if address.port() != 0 {
        socket(address, false).map_err(|source| Error::Bind { address, source })?;
    }
    let first = bind(address, backlog, true)?;
    let bound = first.local_addr().map_err(Error::system("reading a listener's address"))?;
    let mut listeners = vec![first];
    for _ in 1..lanes {
        listeners.push(bind(bound, backlog, true)?);
    }
    Ok(listeners)
}

pub(crate) fn bind(address: SocketAddr, backlog: u32, share: bool) -> Result<TcpListener, Error> {
    let open = || {
        let socket = socket(address, share)?;
        socket.listen(bounded(backlog))?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|source| Error::Bind { address, source })
}

fn bounded(backlog: u32) -> i32 {
    backlog.min(MAX_BACKLOG).cast_signed()
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) proxied: bool,
    pub(crate) common: bool,
}

#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: TcpStream,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) proxied: bool,
    pub(crate) common: bool,
}

#[derive(Debug)]
pub(crate) struct Listeners {
    listeners: Vec<AsyncFd<Listener>>,
    /// The listener to poll first, which changes so that a busy listener does not starve the
    /// others.
    next: Cell<usize>,
    queued: Cell<usize>,
}

impl Listeners {
    pub(crate) fn watch(listeners: Vec<Listener>) -> io::Result<Self> {
        #[expect(deprecated, reason = "sound for a TcpListener, which keeps its descriptor")]
        let watch = |listener| AsyncFd::with_interest(listener, Interest::READABLE);
        let listeners = listeners.into_iter().map(watch).collect::<io::Result<Vec<_>>>()?;
        let queued = Cell::new(listeners.len() * (MAX_BACKLOG as usize + 1));
        Ok(Listeners { listeners, next: Cell::new(0), queued })
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        for at in self.order() {
            if let Poll::Ready(accepted) = poll_accept(&self.listeners[at], cx) {
                self.next.set(at + 1);
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    }

    /// Accepts a waiting connection, even before the event loop reports it. `None` if no connection
    /// is waiting, or after more accepts than the queues hold, because connections keep arriving at
    /// an inherited socket that other processes also serve.
    pub(crate) fn accept_now(&self) -> Option<io::Result<Accepted>> {
        self.queued.set(self.queued.get().checked_sub(1)?);
        self.order().find_map(|at| match self.listeners[at].get_ref().accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            accepted => Some(accepted),
        })
    }

    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, first) = (self.listeners.len(), self.next.get());
        (first..first + count).map(move |at| at % count)
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn poll_accept(listener: &AsyncFd<Listener>, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
    loop {
        let mut ready = ready!(listener.poll_read_ready(cx))?;
        if let Ok(accepted) = ready.try_io(|listener| listener.get_ref().accept()) {
            return Poll::Ready(accepted);
        }
    }
}

impl Listener {
    fn accept(&self) -> io::Result<Accepted> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = acceptfrom_with(&self.socket, flags)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        let Listener { proxied, common, .. } = *self;
        Ok(Accepted { socket: socket.into(), peer, proxied, common })
    }
}

fn socket(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

pub(crate) const MAX_BACKLOG: u32 = 65_535;

/// Files reserved for logs, the admin port and served files.
const RESERVED_FILES: u64 = 256;

/// Files that a lane opens itself: its event loop and its parking lot.
const LANE_FILES: u64 = 6;

const LISTENER_FILES: u64 = 2;

/// Maximum number of connections that a lane can be rejecting with a response at one time. Any
/// other rejected connections are closed.
pub(crate) const REFUSING: usize = 32;

/// Raises the soft limit on open files to the hard limit and rejects a connection limit that does
/// not fit. Containers often start with a soft limit of 1,024.
pub(crate) fn raise_file_limit(
    connections: usize,
    lanes: usize,
    listeners: usize,
) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let of_lane = LANE_FILES + LISTENER_FILES * listeners as u64 + REFUSING as u64;
    let reserved = RESERVED_FILES + lanes as u64 * of_lane;
    if (connections as u64).saturating_add(reserved) > hard {
        return Err(Error::FileLimit { connections, hard, reserved });
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).map_err(
        |error| Error::System { what: "raising the limit of open files", source: error.into() },
    )
}

/// Keeps a listener from spinning while the system is out of files or memory.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    /// Whether the last accept failed for lack of resources.
    short: bool,
}

/// During this pause, connections that end release resources.
const PAUSE: Duration = Duration::from_millis(50);

impl BackOff {
    /// Records a failed accept. Returns the pause: the queue stays readable, so retrying at once
    /// would spin. `None` means that the error affects only one connection (accept(2)).
    pub(crate) fn failed(&mut self, error: &io::Error) -> Option<Duration> {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return None;
        }
        if !self.short {
            self.short = true;
            tracing::warn!(%error, pause = ?PAUSE, "accept fails; retrying");
        }
        Some(PAUSE)
    }

    pub(crate) fn accepted(&mut self) {
        if self.short {
            self.short = false;
            tracing::info!("accept works again");
        }
    }
}
