//! Addresses and sockets that a server listens on.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Maximum path length of a Unix socket: `sun_path` holds 108 bytes, including the terminating NUL
/// (unix(7)).
const LONGEST_PATH: usize = 107;

/// An address or socket that a server listens on, set by
/// [`Builder::listen`](crate::Builder::listen).
///
/// In text form: an address with a port, `unix:` with a path and an optional `?mode=660`, or
/// `inherited:` with a name.
///
/// ```
/// use corelane::{Listen, Server};
///
/// # fn main() -> Result<(), String> {
/// let builder = Server::builder()
///     .listen("127.0.0.1:8080".parse()?)
///     .listen(Listen::unix("/run/shop/http.sock").mode(0o660))
///     .listen(Listen::inherited("http").proxy_protocol(true));
/// assert!(builder.validate().is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub(crate) endpoint: Endpoint,
    pub(crate) proxy_protocol: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix { path: PathBuf, mode: u32 },
    Inherited(String),
}

impl Listen {
    /// A TCP address. For port 0, the system picks a free port, which
    /// [`Server::local_addr`](crate::Server::local_addr) returns.
    pub fn tcp(address: SocketAddr) -> Self {
        Listen { endpoint: Endpoint::Tcp(address), proxy_protocol: false }
    }

    /// A Unix socket at this path of at most 107 bytes, with mode `0o600`: see [`Listen::mode`].
    ///
    /// Replaces a socket file that no process listens on. Any other file at this path makes
    /// [`Builder::build`](crate::Builder::build) fail. A drain removes the socket file before
    /// closing the socket, unless another process has replaced the file.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        let endpoint = Endpoint::Unix { path: path.into(), mode: 0o600 };
        Listen { endpoint, proxy_protocol: false }
    }

    /// A listening TCP or Unix socket inherited by this process, for example from systemd
    /// (sd_listen_fds(3)). `name` is the socket's name in `LISTEN_FDNAMES` or its index, starting
    /// at 0. An empty name selects the first socket. Each socket can be used once.
    ///
    /// The first [`Builder::build`](crate::Builder::build) with an inherited socket removes
    /// `LISTEN_FDS` and `LISTEN_PID` from the environment, so no other thread may read the
    /// environment at that time. A drain accepts the waiting connections and closes this process's
    /// descriptor, but other processes keep the socket open.
    pub fn inherited(name: impl Into<String>) -> Self {
        Listen { endpoint: Endpoint::Inherited(name.into()), proxy_protocol: false }
    }

    /// Mode bits of a Unix socket, up to `0o777`, independent of the umask. A client needs write
    /// permission to connect. The mode is ignored for other sockets.
    #[must_use]
    pub fn mode(mut self, bits: u32) -> Self {
        if let Endpoint::Unix { mode, .. } = &mut self.endpoint {
            *mode = bits;
        }
        self
    }

    /// Whether every connection must start with a PROXY protocol header (version 1 or 2) that
    /// contains the address of the proxy's client. Default: false.
    ///
    /// If true, a connection without a valid header of at most 4,096 bytes is closed and counted
    /// with reason `proxy_header`. [`Timeouts::header`](crate::Timeouts::header) includes the wait
    /// for this header. TLV fields are ignored. The server trusts this header from any client, so
    /// make sure that only the proxy can reach the listener.
    #[must_use]
    pub fn proxy_protocol(mut self, expected: bool) -> Self {
        self.proxy_protocol = expected;
        self
    }

    /// The reason why the listener cannot be used, if any.
    pub(crate) fn fault(&self) -> Option<String> {
        match &self.endpoint {
            Endpoint::Unix { mode, .. } if *mode > 0o777 => {
                Some(format!("{self}: a mode from 0 to 777"))
            }
            Endpoint::Unix { path, .. }
                if !(1..=LONGEST_PATH).contains(&path.as_os_str().len()) =>
            {
                Some(format!("{self}: a path of 1 to {LONGEST_PATH} bytes"))
            }
            _ => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let listen = if let Some(place) = text.strip_prefix("unix:") {
            match place.rsplit_once("?mode=") {
                // Text that is not an octal number becomes an out-of-range mode.
                Some((path, mode)) => {
                    Listen::unix(path).mode(u32::from_str_radix(mode, 8).unwrap_or(u32::MAX))
                }
                None => Listen::unix(place),
            }
        } else if let Some(name) = text.strip_prefix("inherited:") {
            Listen::inherited(name)
        } else if let Ok(address) = text.parse() {
            Listen::tcp(address)
        } else {
            return Err("an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, \
                        unix:PATH?mode=660, or inherited:NAME"
                .to_owned());
        };
        listen.fault().map_or(Ok(listen), Err)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix { path, .. } => write!(f, "unix:{}", path.display()),
            Endpoint::Inherited(name) => write!(f, "inherited:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_each_kind() {
        for text in ["127.0.0.1:80", "[::1]:443", "unix:/run/a.sock", "inherited:web", "inherited:"]
        {
            assert_eq!(text.parse::<Listen>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_mode_is_octal() {
        let mode = |text: &str| match text.parse::<Listen>().expect(text).endpoint {
            Endpoint::Unix { path, mode } => (path, mode),
            _ => panic!("{text}"),
        };
        assert_eq!(mode("unix:/a?mode=0660"), ("/a".into(), 0o660));
        assert_eq!(mode("unix:/a?b"), ("/a?b".into(), 0o600));
    }

    #[test]
    fn other_text_is_rejected_with_what_is_allowed() {
        let long = format!("unix:/{}", "x".repeat(LONGEST_PATH));
        for wrong in ["", "8080", "localhost:80", "/run/a.sock", "unix:", &long] {
            let allowed = wrong.parse::<Listen>().expect_err(wrong);
            assert!(allowed.contains("PATH") || allowed.contains("path"), "{wrong}: {allowed}");
        }
        for wrong in ["1000", "9", ""] {
            let mode = format!("unix:/run/a.sock?mode={wrong}").parse::<Listen>();
            assert!(mode.is_err_and(|fault| fault.contains("from 0 to 777")), "{wrong}");
        }
    }
}
