//! The admin port: probes, metrics and `/lanes`, on a separate thread that is never pinned.
//!
//! A saturated or blocked lane therefore cannot make a probe or a scrape fail.

mod accept;
mod door;
mod lanes;
mod pages;

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use door::{Door, DoorPlace};
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, VARY,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use lanes::ServerView;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::{interval, timeout};

use crate::load::busy::{BusyShares, SAMPLE_EVERY};
use crate::message::problem::Problem;
use crate::server::exposition::{CONTENT_TYPE as METRICS_TYPE, Exposition, classic};
use crate::server::settings::Settings;
use crate::server::shared::Shared;

/// The server's own paths, excluding the files of its pages.
const PATHS: [&str; 6] = ["/", "/healthz", "/readyz", "/metrics", "/lanes", "/lanes.html"];

pub(crate) fn is_own(path: &str) -> bool {
    PATHS.contains(&path) || pages::FILES.iter().any(|(file, ..)| *file == path)
}

const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum age of a connection. Probes must always get through, so no client may monopolise the
/// port.
const CONNECTION_AGE: Duration = Duration::from_secs(60);

/// Grace period for a request in flight when a connection reaches its maximum age.
const LAST_REQUEST: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

struct Admin {
    shared: Arc<Shared>,
    settings: Settings,
    started: Instant,
    exposition: Exposition,
    busy: RefCell<BusyShares>,
}

/// Serves the admin port while its event loop runs.
pub(crate) async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    settings: &Settings,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let admin = Rc::new(Admin {
        exposition: Exposition::new(Arc::clone(&shared), settings),
        shared,
        settings: settings.clone(),
        started: Instant::now(),
        busy: RefCell::default(),
    });
    spawn_local(sample(Rc::clone(&admin)));
    let door = Rc::new(Door::default());
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => admit(&admin, &door, socket, peer),
            Err(error) => {
                tracing::warn!(%error, "accept failed on the admin port");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves a connection until another connection takes its place.
fn admit(admin: &Rc<Admin>, door: &Rc<Door>, socket: TcpStream, peer: SocketAddr) {
    let Some(place) = door.enter(peer.ip()) else { return };
    let admin = Rc::clone(admin);
    spawn_local(async move {
        tokio::select! {
            () = serve(&admin, &place, socket) => {}
            () = place.taken() => {}
        }
    });
}

async fn serve(admin: &Rc<Admin>, place: &DoorPlace, socket: TcpStream) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| async {
        place.set_busy(true);
        let mut pages = admin.settings.pages.iter();
        let mut reply = match pages.find(|page| page.path == request.uri().path()) {
            Some(page) => page.answer(request).await,
            None => admin.answer(&request),
        };
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        place.set_busy(false);
        Ok::<_, Infallible>(reply)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(socket), service));
    // Errors and disconnects of admin clients are not logged.
    if timeout(CONNECTION_AGE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REQUEST, connection).await;
    }
}

async fn sample(admin: Rc<Admin>) {
    let mut ticks = interval(SAMPLE_EVERY);
    loop {
        ticks.tick().await;
        admin.busy.borrow_mut().sample(&admin.shared.lanes, Instant::now());
    }
}

impl Admin {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let answer = match request.uri().path() {
            "/" => Self::index,
            "/healthz" => Self::healthz,
            "/readyz" => Self::readyz,
            "/metrics" if accept::prefers_classic(request.headers()) => Self::classic_metrics,
            "/metrics" => Self::metrics,
            "/lanes" if wants_html(request) => Self::lanes_page,
            "/lanes" => Self::lanes,
            "/lanes.html" => Self::lanes_page,
            path => match pages::FILES.iter().find(|(file, ..)| *file == path) {
                Some(&(_, media_type, text)) => {
                    return only_read(request, || reply(StatusCode::OK, media_type, text.into()));
                }
                None => return Problem::from(StatusCode::NOT_FOUND).into_response(),
            },
        };
        only_read(request, || answer(self))
    }

    fn index(&self) -> Response<Full<Bytes>> {
        let pages = self.settings.pages.iter().map(|page| (page.path, page.about));
        page(pages::index(self.shared.phase().name(), self.shared.ready(), pages))
    }

    fn healthz(&self) -> Response<Full<Bytes>> {
        reply(StatusCode::OK, TEXT, "ok\n".into())
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        let down = self.shared.dependencies.describe(Instant::now());
        if self.shared.ready() {
            return reply(StatusCode::OK, TEXT, format!("ready\n{down}"));
        }
        let phase = format!("{:?}", self.shared.phase()).to_lowercase();
        reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not ready: {phase}\n{down}"))
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        match self.exposition.render() {
            Ok(text) => by_accept(reply(StatusCode::OK, METRICS_TYPE, text)),
            Err(error) => unrendered(&error),
        }
    }

    fn classic_metrics(&self) -> Response<Full<Bytes>> {
        match self.exposition.render() {
            Ok(text) => {
                let text = classic::from_openmetrics(&text);
                by_accept(reply(StatusCode::OK, classic::CONTENT_TYPE, text))
            }
            Err(error) => unrendered(&error),
        }
    }

    fn view(&self) -> ServerView {
        let busy = self.busy.borrow();
        ServerView::take(&self.shared, &self.settings, &busy, self.started, Instant::now())
    }

    fn lanes(&self) -> Response<Full<Bytes>> {
        match serde_json::to_string_pretty(&self.view()) {
            Ok(text) => by_accept(reply(StatusCode::OK, JSON, text + "\n")),
            Err(error) => unrendered(&error),
        }
    }

    fn lanes_page(&self) -> Response<Full<Bytes>> {
        by_accept(page(pages::lanes::render(&self.view())))
    }
}

fn only_read<B>(
    request: &Request<B>,
    answer: impl FnOnce() -> Response<Full<Bytes>>,
) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let allow = HeaderValue::from_static("GET, HEAD");
        return Problem::from(StatusCode::METHOD_NOT_ALLOWED).header(ALLOW, allow).into_response();
    }
    answer()
}

fn page(rendered: Result<String, std::fmt::Error>) -> Response<Full<Bytes>> {
    let mut reply = match rendered {
        Ok(text) => reply(StatusCode::OK, HTML, text),
        Err(error) => return unrendered(&error),
    };
    let policy = HeaderValue::from_static(pages::POLICY);
    reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    reply
}

/// Whether the client accepts HTML, as browsers do. Preferences (RFC 9110 section 12.5.1) are
/// ignored, because they matter only to clients that accept both formats.
fn wants_html<B>(request: &Request<B>) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("text/html"))
}

fn by_accept(mut reply: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    reply.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    reply
}

fn unrendered(error: &dyn std::fmt::Display) -> Response<Full<Bytes>> {
    tracing::error!(%error, "failed to render a page of the admin port");
    Problem::from(StatusCode::INTERNAL_SERVER_ERROR).into_response()
}

fn reply(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
