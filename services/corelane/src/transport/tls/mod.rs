//! TLS for clients: certificates and their reload.
//!
//! It uses rustls with the *ring* provider, which needs only a C compiler to build.

use std::path::PathBuf;
use std::time::Duration;

mod certificate;
mod reload;

pub(crate) use reload::{Reload, Termination, Watch};

/// TLS for clients, set by [`Builder::tls`](crate::Builder::tls).
///
/// TLS 1.2 and 1.3 are supported. The protocol is the client's first choice by ALPN among `h2` and
/// `http/1.1` (RFC 7301). Without ALPN, the first bytes decide, as without TLS. Sessions resume by
/// tickets, whose keys stay in this process and are rotated every six hours.
///
/// The files are read again every [`Tls::reload`] and compared by content, so a swapped symlink of
/// a volume is noticed like a file that is written in place. New connections use the new
/// certificate; open connections are not affected. When the new files are invalid, or the new
/// certificate has expired, the old certificate stays in use; this is logged once and counted in
/// `corelane_tls_reloads_total{result="failure"}`. The two files may therefore be replaced one
/// after the other.
///
/// ```
/// use std::time::Duration;
/// use corelane::{Server, Tls};
///
/// let tls = Tls { reload: Duration::from_secs(60), ..Tls::new("server.crt", "server.key") };
/// let error = Server::builder().tls(tls).build().expect_err("no such files");
/// assert!(error.to_string().contains("server.crt"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the certificate chain: the server's own certificate first, then each issuer
    /// below the root. At most 1 MiB.
    pub certificate: PathBuf,
    /// PEM file of the certificate's private key: PKCS #8, PKCS #1 or SEC 1, not encrypted; RSA,
    /// ECDSA on P-256 or P-384, or Ed25519. At most 1 MiB.
    pub key: PathBuf,
    /// How often the files are read again. Default 10 s; 100 ms to 24 h.
    pub reload: Duration,
}

impl Tls {
    /// Creates TLS settings with these two files and the default reload interval.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Tls { certificate: certificate.into(), key: key.into(), reload: Duration::from_secs(10) }
    }

    /// Whether each setting is within its bounds.
    pub(crate) fn check_bounds(&self) -> Result<(), String> {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(86_400));
        match (least..=most).contains(&self.reload) {
            true => Ok(()),
            false => Err("tls.reload: 100ms to 24h".to_owned()),
        }
    }
}
