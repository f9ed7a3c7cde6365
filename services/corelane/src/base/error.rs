//! Server errors.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Any error that a service or body returns.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The reason why a server failed to start or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A builder setting is out of bounds. The text names the setting and its bounds.
    #[error("{0}")]
    Setting(String),
    /// Lanes cannot be placed on the CPUs in the affinity mask for the given reason.
    #[error("lanes: {0}")]
    Lanes(String),
    /// The connection limit exceeds the number of files that the process may open.
    #[error(
        "limits.connections is {connections}, but the process may open only {hard} files, of \
         which {reserved} are reserved: raise the hard limit (ulimit -Hn) or lower the setting"
    )]
    FileLimit {
        /// Configured connections.
        connections: usize,
        /// Hard limit on open files (getrlimit(2), `RLIMIT_NOFILE`).
        hard: u64,
        /// Files reserved for listeners, event loops, connections being rejected, logs, the admin
        /// port and served files.
        reserved: u64,
    },
    /// A [`Tls`](crate::Tls) file cannot be used.
    #[error("TLS: {} {problem}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The problem with the file, worded so that it completes a sentence.
        problem: String,
    },
    /// An address could not be bound.
    #[error("cannot listen on {address}: {source}; free the address or choose another one")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The server cannot listen on a Unix socket or an inherited socket.
    #[error("cannot listen on {listen}: {source}")]
    Listen {
        /// The requested listener, as in [`Listen`](crate::Listen).
        listen: String,
        /// The reason.
        source: io::Error,
    },
    /// A thread or an event loop could not be created, or a system call failed.
    #[error("{what}: {source}")]
    System {
        /// Operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// A lane's service could not be created, because its factory failed or panicked. No lane has
    /// served a request yet.
    #[error("the service of lane {lane} could not be created: {source}")]
    Factory {
        /// Index of the lane.
        lane: usize,
        /// The factory's error, or its panic message.
        source: BoxError,
    },
    /// A server thread panicked: a lane's event loop, the acceptor, or the admin port.
    #[error("thread {name} ended unexpectedly")]
    ThreadEnded {
        /// Thread name: `lane-` and its index, `acceptor` or `admin`.
        name: String,
    },
}

impl Error {
    /// Whether the settings, rather than the machine, caused this error.
    pub fn is_setting(&self) -> bool {
        matches!(
            self,
            Error::Setting(_) | Error::Lanes(_) | Error::FileLimit { .. } | Error::Tls { .. }
        )
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::System { what, source }
    }
}
