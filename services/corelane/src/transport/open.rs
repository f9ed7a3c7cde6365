//! Opens connections: TLS handshake and protocol detection.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::rc::Rc;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
#[cfg(feature = "tls")]
use http::StatusCode;
#[cfg(feature = "tls")]
use rustls::{CipherSuite, ProtocolVersion, ServerConnection};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::TlsAcceptor;

#[cfg(feature = "tls")]
use crate::message::problem::Problem;
use crate::message::proxy_header::{self, Parsed};
#[cfg(feature = "tls")]
use crate::metrics::Handshake;
use crate::metrics::Refusal;
use crate::os::socket::Socket;
#[cfg(feature = "tls")]
use crate::os::socket::Tcp;
#[cfg(feature = "tls")]
use crate::request::client::{ClientIdentity, TlsInfo};
use crate::request::connection::Connection;
#[cfg(feature = "tls")]
use crate::request::lane_state::LaneState;
use crate::request::service::HttpService;
use crate::transport::connections::{Connections, Registration};
#[cfg(feature = "tls")]
use crate::transport::final_response::dismiss;
use crate::transport::host::LaneService;
use crate::transport::plain::go_on;
#[cfg(feature = "tls")]
use crate::transport::tls::{Loaded, failure};

/// Preface that an HTTP/2 client sends without TLS (RFC 9113 section 3.4).
#[cfg(feature = "http2")]
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Buffer size for the first read, which fits an ordinary request header.
const FIRST_READ: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detected {
    Http1,
    #[cfg(feature = "http2")]
    Http2,
}

/// A connection with a known protocol.
#[derive(Debug)]
struct Opened {
    protocol: Detected,
    socket: Socket,
    /// Bytes read to detect the protocol.
    prefix: Bytes,
}

/// Detects a connection's protocol and serves it in a separate task: a task is as large as its
/// largest state, and most connections are idle.
pub(crate) async fn serve<S: HttpService>(
    host: Rc<LaneService<S>>,
    registration: Registration,
    socket: TcpStream,
    proxied: bool,
) {
    let opened = open(&host.connections, &registration.connection, socket, proxied).await;
    let Some(Opened { protocol, socket, prefix }) = opened else { return };
    match protocol {
        Detected::Http1 => go_on(&host, registration, socket, prefix),
        #[cfg(feature = "http2")]
        Detected::Http2 => host.serve_http2(registration, socket, prefix),
    }
}

/// Reads the PROXY protocol header if the listener expects one, performs the TLS handshake if TLS
/// is on, and detects the protocol. `None` if no connection is left to serve.
async fn open(
    connections: &Connections,
    connection: &Rc<Connection>,
    mut socket: TcpStream,
    proxied: bool,
) -> Option<Opened> {
    let ours = Rc::clone(connection);
    let opened = async {
        // Boxed so that other connections do not need space for its buffers.
        if proxied && !Box::pin(read_proxy_header(&mut socket, connection)).await? {
            return Ok(None);
        }
        match &connections.tls {
            None => detect(Socket::Plain(socket), ours).await,
            #[cfg(feature = "tls")]
            Some(tls) => accept(socket, tls.loaded(), ours, &connections.lane).await,
            #[cfg(not(feature = "tls"))]
            Some(tls) => match **tls {},
        }
    };
    tokio::select! {
        biased;
        opened = opened => opened.ok().flatten(),
        _ = poll_fn(|cx| connection.poll_order(cx)) => None,
    }
}

/// Reads the PROXY protocol header and no further bytes. Returns false if no connection is left to
/// serve.
async fn read_proxy_header(socket: &mut TcpStream, connection: &Connection) -> io::Result<bool> {
    let (mut header, mut space) = (Vec::new(), [0; proxy_header::LONGEST]);
    loop {
        let mut next = ReadBuf::new(&mut space);
        if poll_fn(|cx| socket.poll_peek(cx, &mut next)).await? == 0 {
            if !header.is_empty() {
                connection.lane().metrics().refuse(Refusal::ProxyHeader);
            }
            return Ok(false);
        }
        let before = header.len();
        header.extend_from_slice(next.filled());
        let parsed = proxy_header::parse(&header);
        let own = match parsed {
            Parsed::Partial => header.len() - before,
            Parsed::Whole { length, .. } => length - before,
            Parsed::Invalid => {
                connection.lane().metrics().refuse(Refusal::ProxyHeader);
                tracing::debug!("a connection had no valid header of the PROXY protocol");
                return Ok(false);
            }
        };
        // The bytes are waiting in the socket.
        socket.read_exact(&mut space[..own]).await?;
        if let Parsed::Whole { proxied, .. } = parsed {
            proxied.into_iter().for_each(|proxied| connection.client.set_proxied(proxied));
            return Ok(true);
        }
    }
}

/// Performs the handshake and counts failures. `None` if no connection is left to serve.
#[cfg(feature = "tls")]
async fn accept(
    socket: TcpStream,
    tls: Arc<Loaded>,
    connection: Rc<Connection>,
    lane: &LaneState,
) -> io::Result<Option<Opened>> {
    let mut first = [0];
    if poll_fn(|cx| socket.poll_peek(cx, &mut ReadBuf::new(&mut first))).await? == 0 {
        return Ok(None);
    }
    // Boxed, and allocated only after the first byte. A handshake needs over a kilobyte, which
    // plain or silent connections should not have to pay for.
    Box::pin(answer(first[0], socket, tls, connection, lane)).await
}

#[cfg(feature = "tls")]
async fn answer(
    first: u8,
    socket: TcpStream,
    tls: Arc<Loaded>,
    connection: Rc<Connection>,
    lane: &LaneState,
) -> io::Result<Option<Opened>> {
    // A method starts with a letter, whereas a TLS record starts with its type, which is 22 for a
    // handshake (RFC 8446 section 5.1).
    if first.is_ascii_alphabetic() {
        lane.metrics().refuse(Refusal::PlainHttp);
        let problem = Problem::new(StatusCode::BAD_REQUEST, "plain-http")
            .detail("a plain HTTP request was sent to an HTTPS port");
        dismiss(lane, socket, problem).await;
        return Ok(None);
    }
    connection.begin_handshake();
    let accepted = TlsAcceptor::from(Arc::clone(&tls.config)).accept(Tcp::new(socket)).await;
    let verified = accepted.and_then(|stream| Ok((tls.client(stream.get_ref().1)?, stream)));
    let (client, stream) = match verified {
        Ok((client, stream)) => (client, Box::new(stream)),
        Err(error) => {
            lane.metrics().shake(failure(&error));
            lane.metrics().refuse(Refusal::Handshake);
            tracing::debug!(lane = lane.index, %error, "a TLS handshake failed");
            return Err(error);
        }
    };
    lane.metrics().shake(Handshake::Success);
    connection.end_handshake();
    connection.client.set_tls(agreed(stream.get_ref().1, client));
    let protocol = match stream.get_ref().1.alpn_protocol() {
        #[cfg(feature = "http2")]
        Some(b"h2") => Some(Detected::Http2),
        Some(_) => Some(Detected::Http1),
        None => None,
    };
    let socket = Socket::Tls(stream);
    match protocol {
        Some(protocol) => Ok(Some(Opened { protocol, socket, prefix: Default::default() })),
        None => detect(socket, connection).await,
    }
}

#[cfg(feature = "tls")]
fn agreed(session: &ServerConnection, client: Option<ClientIdentity>) -> TlsInfo {
    TlsInfo {
        version: match session.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher: session.negotiated_cipher_suite().map_or("", |suite| cipher_name(suite.suite())),
        alpn: match session.alpn_protocol() {
            Some(b"h2") => Some("h2"),
            other => other.map(|_| "http/1.1"),
        },
        server_name: session.server_name().map(Into::into),
        client,
    }
}

/// IANA name of a cipher suite. rustls has its own names for TLS 1.3 suites.
#[cfg(feature = "tls")]
fn cipher_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        other => other.as_str().unwrap_or_default(),
    }
}

/// Reads until the protocol is known. `None` if the client disconnects first.
async fn detect(mut socket: Socket, connection: Rc<Connection>) -> io::Result<Option<Opened>> {
    let mut prefix = BytesMut::new();
    loop {
        if poll_fn(|cx| poll_first(&mut socket, &mut prefix, cx)).await? == 0 {
            return Ok(None);
        }
        connection.received();
        if let Some(protocol) = protocol_of(&prefix) {
            return Ok(Some(Opened { protocol, socket, prefix: prefix.freeze() }));
        }
    }
}

/// No memory is allocated before the first byte, because a client may connect long before its first
/// request.
fn poll_first(
    socket: &mut Socket,
    prefix: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut space = [MaybeUninit::uninit(); FIRST_READ];
    let mut first = ReadBuf::uninit(&mut space);
    ready!(Pin::new(socket).poll_read(cx, &mut first))?;
    prefix.extend_from_slice(first.filled());
    Poll::Ready(Ok(first.filled().len()))
}

/// The protocol that starts with `bytes`, or `None` while both protocols are possible.
#[cfg(feature = "http2")]
fn protocol_of(bytes: &[u8]) -> Option<Detected> {
    if bytes.starts_with(PREFACE) {
        Some(Detected::Http2)
    } else if PREFACE.starts_with(bytes) {
        None
    } else {
        Some(Detected::Http1)
    }
}

#[cfg(not(feature = "http2"))]
fn protocol_of(_bytes: &[u8]) -> Option<Detected> {
    Some(Detected::Http1)
}

#[cfg(all(test, feature = "http2"))]
mod tests {
    use std::task::Waker;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_client_that_says_nothing_has_no_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let mut socket = Socket::Plain(listener.accept().await.expect("a connection").0);
        let mut prefix = BytesMut::new();
        let waits = &mut Context::from_waker(Waker::noop());
        assert!(poll_first(&mut socket, &mut prefix, waits).is_pending());
        assert_eq!(prefix.capacity(), 0);
        client.write_all(b"GET").await.expect("written");
        let first = poll_fn(|cx| poll_first(&mut socket, &mut prefix, cx)).await;
        assert_eq!((first.expect("bytes"), &prefix[..]), (3, &b"GET"[..]));
    }

    #[test]
    fn protocol_is_told_as_soon_as_it_is_certain() {
        assert_eq!(protocol_of(b"GET / HTTP/1.1\r\n"), Some(Detected::Http1));
        assert_eq!(protocol_of(b"P"), None);
        assert_eq!(protocol_of(b"PO"), Some(Detected::Http1));
        assert_eq!(protocol_of(&PREFACE[..23]), None);
        assert_eq!(protocol_of(PREFACE), Some(Detected::Http2));
        let with_settings = [PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
        assert_eq!(protocol_of(&with_settings), Some(Detected::Http2));
    }
}
