//! Probes and metrics, on a port of their own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
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

use super::status::Status;

/// Connections at once: the kubelet and a few scrapers.
const CONNECTIONS: usize = 64;

/// Longest time of a connection; whoever asks every few seconds opens another.
const LIFE: Duration = Duration::from_secs(120);

/// The listening socket, so that a port that is taken is an error at once.
pub(crate) async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers for ever.
pub(crate) async fn serve(listener: TcpListener, status: Arc<Status>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = Arc::clone(&status);
                tokio::spawn(async move {
                    let _place = place;
                    let _ = timeout(LIFE, talk(stream, status)).await;
                });
            }
            // Out of file descriptors, for example.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn talk(stream: TcpStream, status: Arc<Status>) -> Result<(), hyper::Error> {
    let service = service_fn(|request| {
        let reply = answer(&request, &status);
        async { Ok::<_, Infallible>(reply) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, status: &Status) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "only GET\n".to_owned());
    }
    match request.uri().path() {
        "/healthz" => text(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if status.has_file() => text(StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => {
            let words = "no endpoints were read yet\n".to_owned();
            text(StatusCode::SERVICE_UNAVAILABLE, "text/plain", words)
        }
        "/metrics" => text(StatusCode::OK, "text/plain; version=0.0.4", status.metrics()),
        _ => text(StatusCode::NOT_FOUND, "text/plain", "nothing is here\n".to_owned()),
    }
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let reply = Response::builder().status(status).header(CONTENT_TYPE, kind);
    reply.body(Full::new(body.into())).expect("the parts are valid")
}
