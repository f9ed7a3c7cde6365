//! Probes, metrics, reports and pages on a separate port.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::future::ready;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Maximum number of connections: enough for the kubelet, a few scrapers and people.
const CONNECTIONS: usize = 64;

/// Maximum connections per address, so that one client cannot block the kubelet's probes.
const OF_A_PEER: usize = 16;

/// Time limit for a request header, and the idle timeout.
const HEADERS: Duration = Duration::from_secs(5);

/// Maximum age of a connection. A client with more requests opens another connection.
const LIFE: Duration = Duration::from_secs(120);

/// Grace time for the request in flight when a connection reaches its maximum age.
const LAST_REQUEST: Duration = Duration::from_secs(5);

/// A response: status, media type and text.
pub type Answer = (StatusCode, &'static str, String);

/// Answers every GET according to its path until the future is dropped.
pub async fn serve<A>(listener: TcpListener, answer: A)
where
    A: Fn(&str) -> Answer + Send + Sync + 'static,
{
    serve_requests(listener, move |request| ready(reply(&request, &answer))).await;
}

/// Answers every request until the future is dropped.
pub async fn serve_requests<A, R>(listener: TcpListener, answer: A) -> Infallible
where
    A: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send,
{
    let answer = Arc::new(answer);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let peers = Peers::default();
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                // If the address has too many connections, this connection is closed at once.
                let Some(of_peer) = peers.enter(peer.ip()) else { continue };
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let _places = (place, of_peer);
                    talk(stream, &*answer).await;
                });
            }
            // Out of file descriptors, for example.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Peers(Arc<Mutex<HashMap<IpAddr, usize>>>);

#[derive(Debug)]
struct PeerPlace(Peers, IpAddr);

impl Peers {
    fn enter(&self, peer: IpAddr) -> Option<PeerPlace> {
        let mut peers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = peers.entry(peer).or_default();
        (*taken < OF_A_PEER).then(|| {
            *taken += 1;
            PeerPlace(self.clone(), peer)
        })
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut peers = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut taken) = peers.entry(self.1) {
            *taken.get_mut() -= 1;
            if *taken.get() == 0 {
                taken.remove();
            }
        }
    }
}

async fn talk<R>(stream: TcpStream, answer: &impl Fn(Request<Incoming>) -> R)
where
    R: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(|request| {
        let reply = answer(request);
        async { Ok::<_, Infallible>(reply.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    // A client that disconnects is not an error.
    if timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REQUEST, connection).await;
    }
}

fn reply(request: &Request<Incoming>, answer: &impl Fn(&str) -> Answer) -> Response<Full<Bytes>> {
    let (status, kind, text) = match *request.method() {
        Method::GET => answer(request.uri().path()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET is allowed\n".to_owned()),
    };
    let reply = Response::builder().status(status).header(CONTENT_TYPE, kind);
    reply.body(Full::new(text.into())).expect("the parts are valid")
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::{Ipv4Addr, SocketAddr};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;

    const GET: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

    async fn connect(to: SocketAddr, from: [u8; 4]) -> io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::from(from), 0).into())?;
        socket.connect(to).await
    }

    #[tokio::test]
    async fn idle_connections_of_one_peer_leave_room_for_others() -> io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let answer = |_: &str| (StatusCode::OK, "text/plain", "here".to_owned());
        tokio::spawn(serve(listener, answer));
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(connect(address, [127, 0, 0, 2]).await?);
        }
        let mut other = connect(address, [127, 0, 0, 3]).await?;
        other.write_all(GET).await?;
        let mut reply = String::new();
        other.read_to_string(&mut reply).await?;
        assert!(reply.ends_with("here"), "{reply}");
        // Connections above the limit are closed.
        let mut refused = idle.pop().expect("there are many");
        assert_eq!(refused.read(&mut [0]).await?, 0);
        // The other connections are waiting for a request.
        let mut first = idle.swap_remove(0);
        first.write_all(GET).await?;
        let mut reply = String::new();
        first.read_to_string(&mut reply).await?;
        assert!(reply.ends_with("here"), "{reply}");
        Ok(())
    }
}
