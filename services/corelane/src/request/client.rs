//! A connection's client.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::str::FromStr;
use std::sync::Arc;

use nix::sys::socket::{SockaddrStorage, getsockname};

use crate::message::proxy_header::Proxied;

/// A client's connection, as returned by [`connection`](crate::connection).
///
/// ```
/// use corelane::Incoming;
/// use http::Request;
///
/// fn describe(_request: &Request<Incoming>) -> String {
///     match corelane::connection() {
///         Some(connection) => format!("{:?} over {:?}", connection.peer, connection.protocol),
///         None => "outside a handler".to_owned(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The client's address: the other end of the TCP connection or, with
    /// [`Listen::proxy_protocol`](crate::Listen::proxy_protocol), the address named by the proxy.
    /// `None` for a Unix socket. [`client_addr`](crate::client_addr) also finds clients behind HTTP
    /// proxies.
    pub peer: Option<SocketAddr>,
    /// The address that the client connected to, determined in the same way. Also `None` if the
    /// address could not be read.
    pub local: Option<SocketAddr>,
    /// The proxy whose PROXY protocol header contained [`ConnectionInfo::peer`].
    pub proxy: Option<SocketAddr>,
    /// The connection's protocol.
    pub protocol: Protocol,
    /// Negotiated TLS parameters, or `None` without TLS.
    pub tls: Option<Arc<TlsInfo>>,
}

/// A connection's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// HTTP/1.1 or HTTP/1.0. Each request has its own version.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Parameters negotiated in a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsInfo {
    /// The version, such as `TLSv1.3`.
    pub version: &'static str,
    /// IANA name of the cipher suite, such as `TLS_AES_128_GCM_SHA256`.
    pub cipher: &'static str,
    /// The protocol negotiated by ALPN, such as `h2`, or `None` if the client offered no protocol.
    pub alpn: Option<&'static str>,
    /// The host name that the client requested (SNI), in lower case. Clients can send any name.
    pub server_name: Option<Box<str>>,
    /// The identity proved by the client's certificate: the first allowed identity that the
    /// certificate names. `None` without [`Tls::clients`](crate::Tls::clients).
    pub client: Option<ClientIdentity>,
}

/// A TLS client's identity: a subject alternative name of its certificate, either a URI, compared
/// byte by byte, or a DNS name without a wildcard. IP addresses are not identities, because another
/// pod can later get a pod's address.
///
/// ```
/// use corelane::ClientIdentity;
///
/// let gateway: ClientIdentity = "spiffe://cluster.local/ns/edge/sa/gateway".parse().expect("a URI");
/// assert_eq!(gateway.to_string(), "spiffe://cluster.local/ns/edge/sa/gateway");
/// assert!("gateway.edge.svc".parse::<ClientIdentity>().is_ok());
/// for wrong in ["10.0.0.1", "*.edge.svc", "spiffe://", "two words", ""] {
///     assert!(wrong.parse::<ClientIdentity>().is_err(), "{wrong}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientIdentity(Arc<str>);

impl ClientIdentity {
    /// The identity as text. A DNS name is in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the identity is a URI rather than a DNS name.
    pub(crate) fn is_uri(&self) -> bool {
        self.0.contains(':')
    }
}

impl FromStr for ClientIdentity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let of_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(of_label);
        let is_dns = text.split('.').all(is_label) && text.parse::<IpAddr>().is_err();
        let uri = text.parse::<http::Uri>().ok().filter(|_| !text.contains('*'));
        let is_uri = uri.is_some_and(|uri| uri.scheme().is_some());
        match (is_dns, is_uri) {
            (true, _) => Ok(ClientIdentity(text.to_ascii_lowercase().into())),
            (_, true) => Ok(ClientIdentity(text.into())),
            _ => Err("a URI such as spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT, or a DNS name"
                .to_owned()),
        }
    }
}

impl fmt::Display for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Information about the client that arrived on the connection: the PROXY protocol header and the
/// result of the TLS handshake. This information stays with a connection that parks or moves. If
/// there is none, the connection stores only one word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Introduced(Option<Arc<Introduction>>);

#[derive(Clone, Debug, Default)]
struct Introduction {
    proxied: Option<Proxied>,
    tls: Option<Arc<TlsInfo>>,
}

#[derive(Debug)]
pub(crate) struct Client {
    /// The other end of the socket, or `None` for a Unix socket. Stored because the kernel forgets
    /// the address when the client resets the connection.
    peer: Option<SocketAddr>,
    introduced: RefCell<Introduced>,
    /// The socket until it is closed. The local address is read only when a service requests it.
    socket: Cell<Option<RawFd>>,
}

impl Client {
    pub(crate) fn new(peer: Option<SocketAddr>, introduced: Introduced, socket: RawFd) -> Self {
        let socket = Cell::new(Some(socket));
        Client { peer, introduced: RefCell::new(introduced), socket }
    }

    pub(crate) fn introduced(&self) -> Introduced {
        self.introduced.borrow().clone()
    }

    pub(crate) fn set_proxied(&self, proxied: Proxied) {
        self.add(|added| added.proxied = Some(proxied));
    }

    pub(crate) fn set_tls(&self, tls: TlsInfo) {
        self.add(|added| added.tls = Some(Arc::new(tls)));
    }

    fn add(&self, set: impl FnOnce(&mut Introduction)) {
        set(Arc::make_mut(self.introduced.borrow_mut().0.get_or_insert_default()));
    }

    pub(crate) fn forget_socket(&self) {
        self.socket.set(None);
    }

    pub(crate) fn ip(&self) -> Option<IpAddr> {
        let introduced = self.introduced.borrow();
        let proxied = introduced.0.as_ref().and_then(|introduction| introduction.proxied);
        let peer = proxied.map(|proxied| proxied.source).or(self.peer);
        peer.map(|peer| peer.ip())
    }

    pub(crate) fn info(&self, protocol: Protocol) -> ConnectionInfo {
        let introduction = self.introduced.borrow().0.as_deref().cloned().unwrap_or_default();
        let (peer, tls) = (self.peer, introduction.tls);
        match introduction.proxied {
            Some(Proxied { source, destination }) => ConnectionInfo {
                peer: Some(source),
                local: Some(destination),
                proxy: peer,
                protocol,
                tls,
            },
            None => ConnectionInfo { peer, local: self.local(), proxy: None, protocol, tls },
        }
    }

    fn local(&self) -> Option<SocketAddr> {
        let address = getsockname::<SockaddrStorage>(self.socket.get()?).ok()?;
        let four = address.as_sockaddr_in().map(|&address| SocketAddr::V4(address.into()));
        four.or_else(|| address.as_sockaddr_in6().map(|&address| SocketAddr::V6(address.into())))
    }
}
