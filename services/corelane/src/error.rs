//! Why a server could not start or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the builder is out of its bounds; the text names it.
    #[error("{0}")]
    Setting(String),
    /// The affinity mask allows no such lanes; the text says why.
    #[error("lanes: {0}")]
    Lanes(String),
    /// More connections are configured than the process may have open files.
    #[error(
        "limits.connections is {connections}, but the process may open only {hard} files, of \
         which {reserved} are kept for other uses: raise the hard limit (ulimit -Hn) or lower \
         the setting"
    )]
    FileLimit {
        /// The configured number of connections.
        connections: usize,
        /// The hard limit of open files (getrlimit(2), `RLIMIT_NOFILE`).
        hard: u64,
        /// Files kept for listeners, event loops, connections that are being refused, logs, the
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
    #[error("cannot listen on {address}: {source}; free it or choose another address")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread, an event loop or a system call that a server needs was refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A thread of the server panicked: a lane's service factory or event loop, the acceptor, or the
    /// admin port.
    #[error("thread {name} ended unexpectedly")]
    ThreadEnded {
        /// Name of the thread: `lane-` and its index, `acceptor` or `admin`.
        name: String,
    },
}

impl Error {
    /// Whether the caller's settings are at fault rather than the machine.
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
