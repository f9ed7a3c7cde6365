//! Errors of a server.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of any type, as services and bodies return it.
pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// The reason why a server did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the builder is out of bounds; the text names the setting and its bounds.
    #[error("{0}")]
    Setting(String),
    /// The lanes cannot be placed on the CPUs of the affinity mask; the text gives the reason.
    #[error("lanes: {0}")]
    Lanes(String),
    /// More connections are configured than the process may have open files.
    #[error(
        "limits.connections is {connections}, but the process may open only {hard} files, of \
         which {reserved} are reserved: raise the hard limit (ulimit -Hn) or lower the setting"
    )]
    FileLimit {
        /// The configured number of connections.
        connections: usize,
        /// The hard limit of open files (getrlimit(2), `RLIMIT_NOFILE`).
        hard: u64,
        /// Files reserved for listeners, event loops, connections that are being rejected, logs, the
        /// admin port and the files a service serves.
        reserved: u64,
    },
    /// A file of [`Tls`](crate::Tls) cannot be used.
    #[error("TLS: {} {problem}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, as a predicate.
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
    /// The server cannot listen on a Unix socket, or on a socket that it should have inherited.
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
        /// The operation that failed.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// The service of a lane could not be created: its factory failed or panicked. No lane has served
    /// a request.
    #[error("the service of lane {lane} could not be created: {source}")]
    Factory {
        /// Index of the lane.
        lane: usize,
        /// The factory's error, or the message of its panic.
        source: BoxError,
    },
    /// A thread of the server panicked: a lane's event loop, the acceptor, or the admin port.
    #[error("thread {name} ended unexpectedly")]
    ThreadEnded {
        /// Name of the thread: `lane-` and its index, `acceptor` or `admin`.
        name: String,
    },
}

impl Error {
    /// Whether the settings cause this error, rather than the machine.
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
