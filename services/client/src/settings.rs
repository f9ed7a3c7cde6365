//! How a service is called.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use corelane::ClientIdentity;

use crate::target::Target;

/// How a service is called. A [`Target`] converts into the default settings.
///
/// ```
/// use std::time::Duration;
/// use corelane_client::Settings;
///
/// let target = "http://orders.shop:8080".parse().expect("a URL");
/// let settings = Settings { timeout: Duration::from_secs(2), ..Settings::new(target) };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the service is.
    pub target: Target,
    /// Maximum time of a call, including its retries and the response's body. The current request's
    /// deadline may allow less. Default: 10 s.
    pub timeout: Duration,
    /// The part of the current request's remaining time that a call must leave for the response.
    /// Default: 5 ms.
    pub margin: Duration,
    /// Maximum time for a connection, including TLS. Default: 1 s.
    pub connect_timeout: Duration,
    /// Time after which an idle connection is closed. It must be shorter than the server's idle
    /// timeout (Corelane: 75 s), so that no call meets a connection that is closing. Default: 30 s.
    pub idle: Duration,
    /// Bounds for the interval between two DNS queries, which otherwise follows the records' TTL.
    /// Default: 1 s to 30 s.
    pub refresh: RangeInclusive<Duration>,
    /// DNS servers. Default: none, which means those of `/etc/resolv.conf`.
    pub name_servers: Vec<SocketAddr>,
    /// TLS, required for `https` and `h2`.
    pub tls: Option<Tls>,
}

impl Settings {
    /// The default settings for a target.
    pub fn new(target: Target) -> Self {
        Settings {
            target,
            timeout: Duration::from_secs(10),
            margin: Duration::from_millis(5),
            connect_timeout: Duration::from_secs(1),
            idle: Duration::from_secs(30),
            refresh: Duration::from_secs(1)..=Duration::from_secs(30),
            name_servers: Vec::new(),
            tls: None,
        }
    }
}

impl From<Target> for Settings {
    fn from(target: Target) -> Self {
        Settings::new(target)
    }
}

/// TLS to a called service. The files are reread every [`Tls::reload`], as the server does: invalid
/// files are logged and the previous ones stay in use, and open connections are not affected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the CAs that issue the service's certificates.
    pub ca: PathBuf,
    /// The identity that the service's certificate must name, such as
    /// `spiffe://cluster.local/ns/shop/sa/orders`.
    pub name: ClientIdentity,
    /// PEM files of the certificate chain and the private key that this process presents. `None` presents no
    /// certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Interval at which the files are reread. Default: 10 s.
    pub reload: Duration,
}

impl Tls {
    /// TLS to a service with this identity, whose certificate one of these CAs issued.
    pub fn new(ca: impl Into<PathBuf>, name: ClientIdentity) -> Self {
        Tls { ca: ca.into(), name, identity: None, reload: Duration::from_secs(10) }
    }
}
