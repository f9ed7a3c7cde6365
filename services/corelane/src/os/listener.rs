//! Listening sockets and the process's limit of open files.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

use crate::base::error::Error;

/// Binds one listener per lane to `address`, all in one `SO_REUSEPORT` group (socket(7)).
pub(crate) fn bind_lanes(
    address: SocketAddr,
    backlog: u32,
    lanes: usize,
) -> Result<Vec<TcpListener>, Error> {
    // Any process of the same user can silently join a reuseport group. A first bind without the
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

/// Binds one listener, in non-blocking mode.
pub(crate) fn bind(address: SocketAddr, backlog: u32, share: bool) -> Result<TcpListener, Error> {
    let open = || {
        let socket = socket(address, share)?;
        socket.listen(backlog.min(MAX_BACKLOG).cast_signed())?;
        Ok(TcpListener::from(socket))
    };
    open().map_err(|source| Error::Bind { address, source })
}

/// Accepts a pending connection without blocking, even if the event loop has not reported it yet.
pub(crate) fn accept_now(listener: impl AsFd) -> io::Result<TcpStream> {
    Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?.into())
}

/// A bound socket that does not listen yet.
fn socket(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Maximum length of the accept queue.
pub(crate) const MAX_BACKLOG: u32 = 65_535;

/// Files reserved for logs, the admin port and the files a service serves.
const RESERVED_FILES: u64 = 256;

/// Files that a lane opens itself: two for its listener, its event loop and its parking lot.
const LANE_FILES: u64 = 8;

/// Maximum connections that a lane rejects with a reply at the same time. Others are closed.
pub(crate) const REFUSING: usize = 32;

/// Raises the soft limit of open files to the hard limit, and rejects a connection limit that does
/// not fit. Containers often start with a soft limit of 1,024.
pub(crate) fn raise_file_limit(connections: usize, lanes: usize) -> Result<(), Error> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let reserved = RESERVED_FILES + lanes as u64 * (LANE_FILES + REFUSING as u64);
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
    /// Whether the last accept failed because of missing resources.
    short: bool,
}

/// Length of a pause. Resources become free when connections end.
const PAUSE: Duration = Duration::from_millis(50);

impl BackOff {
    /// Records a failed accept. Returns the pause: the queue is still readable, so accepting again
    /// at once would spin. `None` if the error affects one connection only (accept(2)).
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

    /// Records a successful accept.
    pub(crate) fn accepted(&mut self) {
        if self.short {
            self.short = false;
            tracing::info!("accept works again");
        }
    }
}
