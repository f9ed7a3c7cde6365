//! Connections to one endpoint.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::Service;

use crate::body::Replay;
use crate::metrics::Counters;
use crate::settings::Settings;

/// The connections of one lane to one endpoint.
pub(crate) struct Way {
    pub(crate) http: HttpClient<Connector, Replay>,
    /// Scheme and authority of requests.
    pub(crate) origin: (http::uri::Scheme, http::uri::Authority),
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// The current TLS configuration and the name for SNI.
pub(crate) type TlsState = watch::Receiver<Arc<ClientConfig>>;

impl Way {
    pub(crate) fn new(
        address: SocketAddr,
        settings: &Settings,
        tls: Option<&TlsState>,
        counters: &Arc<Counters>,
    ) -> Self {
        let (scheme, authority) = settings.target.origin(address);
        let name = ServerName::try_from(authority.host().to_owned());
        let name = name.unwrap_or_else(|_| ServerName::from(address.ip()));
        let connector = Connector {
            address,
            tls: tls.map(|tls| (tls.clone(), name)),
            limit: settings.connect_timeout,
            counters: Arc::clone(counters),
        };
        let http = HttpClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle)
            .http2_only(settings.target.scheme.is_http2())
            .build(connector);
        Way { http, origin: (scheme, authority) }
    }
}

/// Connects to one address, whatever the URI.
#[derive(Clone)]
pub(crate) struct Connector {
    address: SocketAddr,
    tls: Option<(TlsState, ServerName<'static>)>,
    limit: Duration,
    counters: Arc<Counters>,
}

impl Connector {
    async fn connect(self) -> io::Result<Stream> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        self.counters.connections.fetch_add(1, Relaxed);
        let open = Open(Arc::clone(&self.counters));
        let Some((tls, name)) = self.tls else {
            return Ok(Stream { io: TokioIo::new(Box::new(socket)), is_h2: false, _open: open });
        };
        let config = Arc::clone(&tls.borrow());
        let session = TlsConnector::from(config).connect(name, socket).await?;
        let is_h2 = session.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Stream { io: TokioIo::new(Box::new(session)), is_h2, _open: open })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let limit = connector.limit;
            match timeout(limit, connector.connect()).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, timed_out(limit))),
            }
        })
    }
}

/// A refused connection fails at once, so a timeout usually means that packets are dropped.
fn timed_out(limit: Duration) -> String {
    format!(
        "no connection within {limit:?}; if the address belongs to a pod, check that a NetworkPolicy \
         allows egress here and ingress there"
    )
}

/// Counts a connection as open.
struct Open(Arc<Counters>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection with or without TLS.
pub(crate) struct Stream {
    io: TokioIo<Box<dyn Io>>,
    is_h2: bool,
    _open: Open,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.is_h2 { connected.negotiated_h2() } else { connected }
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}
