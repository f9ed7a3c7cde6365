//! TLS for clients: certificates, certificate reloads, and client verification.
//!
//! It uses rustls with the *ring* provider, which needs only a C compiler to build.

use std::path::PathBuf;
use std::time::Duration;

use crate::request::client::ClientIdentity;

mod certificate;
mod clients;
mod reload;

pub(crate) use clients::failure;
pub(crate) use reload::{Loaded, Reload, Termination, Watch};

/// TLS for clients, set by [`Builder::tls`](crate::Builder::tls).
///
/// TLS 1.2 and 1.3 are supported. ALPN selects the protocol that the client prefers out of `h2` and
/// `http/1.1` (RFC 7301). Without ALPN, the first bytes determine the protocol, as they do without
/// TLS. Sessions are resumed with tickets, whose keys stay in this process and are rotated every
/// six hours.
///
/// The server rereads the files every [`Tls::reload`] and compares their contents, so it detects
/// both a swapped symlink in a volume and a file that was overwritten in place. New connections use
/// the new certificate, and open connections are not affected. If the new files are invalid or the
/// new certificate has expired, the old files stay in use. You can therefore replace the files one
/// after the other. The server logs the failure once and counts it in
/// `corelane_tls_reloads_total{result="failure"}`.
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
    /// PEM file of the certificate's private key: an unencrypted PKCS #8, PKCS #1 or SEC 1 key for
    /// RSA, ECDSA on P-256 or P-384, or Ed25519. At most 1 MiB.
    pub key: PathBuf,
    /// Interval at which the files are reread. Default: 10 s. Range: 100 ms to 24 h.
    pub reload: Duration,
    /// Which clients may connect. Default: `None`, which lets all clients connect without a
    /// certificate.
    pub clients: Option<TlsClients>,
}

/// The clients that may connect. Each client must present a certificate that a trusted CA issued
/// for TLS clients and that names an allowed identity.
///
/// Other clients are rejected during the handshake, and `corelane_tls_handshakes_total` counts the
/// rejections by reason. The CA file is reloaded together with the certificate. After a change to
/// the CA file, older sessions cannot be resumed, so clients must present their certificates again.
/// A resumed session is checked like a new session, so a session cannot be resumed once its
/// certificate has expired.
///
/// ```
/// use corelane::{Server, Tls, TlsClients};
///
/// let gateway = "spiffe://cluster.local/ns/edge/sa/gateway".parse().expect("a URI");
/// let clients = Some(TlsClients { ca: "clients-ca.crt".into(), allow: vec![gateway] });
/// let tls = Tls { clients, ..Tls::new("server.crt", "server.key") };
///
/// fn handler() -> String {
///     let client = corelane::connection().and_then(|connection| connection.tls.as_ref()?.client.clone());
///     client.map_or("not verified".to_owned(), |client| format!("hello {client}"))
/// }
/// # assert_eq!(handler(), "not verified");
/// # assert!(Server::builder().tls(tls).build().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClients {
    /// PEM file with the CAs that issue client certificates. At most 1 MiB. Expired CAs are not
    /// trusted.
    pub ca: PathBuf,
    /// The allowed identities. A client must have one of these identities. At least one identity is
    /// required, because a CA usually issues certificates to more than one service's clients.
    pub allow: Vec<ClientIdentity>,
}

impl Tls {
    /// Creates TLS settings with these two files and the default reload interval.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        Tls { certificate, key, reload: Duration::from_secs(10), clients: None }
    }

    /// Whether each setting is within its bounds.
    pub(crate) fn check_bounds(&self) -> Result<(), String> {
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(86_400));
        if self.clients.as_ref().is_some_and(|clients| clients.allow.is_empty()) {
            return Err("tls.clients.allow: at least one identity".to_owned());
        }
        match (least..=most).contains(&self.reload) {
            true => Ok(()),
            false => Err("tls.reload: 100ms to 24h".to_owned()),
        }
    }
}
