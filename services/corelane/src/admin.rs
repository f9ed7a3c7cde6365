//! The admin port: probes and metrics, on a thread of its own that is never pinned.
//!
//! A lane that is saturated, or stuck in a handler, therefore never fails a probe or a scrape.

use std::convert::Infallible;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::metrics::{CONTENT_TYPE as METRICS_TYPE, Exposition};
use crate::problem::Problem;
use crate::shared::Shared;

/// Most connections to the admin port at a time; further ones wait in the accept queue.
const CONNECTIONS: usize = 256;

/// For a whole header, and between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Oldest that a connection gets, so that nobody can hold the port: probes must get through.
const CONNECTION_AGE: Duration = Duration::from_secs(60);

/// For the request in flight when a connection has reached its age.
const LAST_REQUEST: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; charset=utf-8";

struct Admin {
    shared: Arc<Shared>,
    exposition: Exposition,
}

/// Serves the admin port for as long as its event loop runs.
pub(crate) async fn run(listener: TcpListener, shared: Arc<Shared>) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let exposition = Exposition::new(Arc::clone(&shared), env!("CARGO_PKG_VERSION"));
    let admin = Rc::new(Admin { shared, exposition });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
        let socket = match listener.accept().await {
            Ok((socket, _)) => socket,
            Err(error) => {
                tracing::warn!(%error, "accept failed on the admin port");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let admin = Rc::clone(&admin);
        spawn_local(async move {
            let service = service_fn(|request| {
                let reply = admin.answer(&request);
                async move { Ok::<_, Infallible>(reply) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
            let mut connection =
                std::pin::pin!(http.serve_connection(TokioIo::new(socket), service));
            // How it ends, and whether its client breaks off, is no event.
            if timeout(CONNECTION_AGE, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(LAST_REQUEST, connection).await;
            }
            drop(place);
        });
    }
}

impl Admin {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let answer = match request.uri().path() {
            "/healthz" => Self::healthz,
            "/readyz" => Self::readyz,
            "/metrics" => Self::metrics,
            _ => return Problem::from(StatusCode::NOT_FOUND).into_response(),
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Problem::from(StatusCode::METHOD_NOT_ALLOWED)
                .header(ALLOW, HeaderValue::from_static("GET, HEAD"))
                .into_response();
        }
        let mut reply = answer(self);
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    fn healthz(&self) -> Response<Full<Bytes>> {
        reply(StatusCode::OK, TEXT, "ok\n".into())
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        if self.shared.ready() {
            return reply(StatusCode::OK, TEXT, "ready\n".into());
        }
        let text = format!("not ready: {:?}\n", self.shared.phase());
        reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, text.to_lowercase())
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match self.exposition.render() {
            Ok(text) => reply(StatusCode::OK, METRICS_TYPE, text),
            Err(error) => {
                tracing::error!(%error, "metrics could not be rendered");
                Problem::from(StatusCode::INTERNAL_SERVER_ERROR).into_response()
            }
        }
    }
}

fn reply(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
