//! Upgraded connections and HTTP/2 streams.

mod connections;
mod streams;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use corelane::{Builder, Lane};
use futures_util::{StreamExt, stream};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use crate::support::{Alive, Client, Running};

const UPGRADED: &str = "corelane_connections_upgraded{lane=\"0\"}";

#[derive(Clone)]
struct Shared {
    lane: Option<Lane>,
    /// Number of handlers of upgraded streams that are still running.
    alive: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    ends: mpsc::Sender<String>,
}

impl Shared {
    fn new() -> (Shared, mpsc::Receiver<String>) {
        let (ends, ended) = mpsc::channel();
        (
            Shared { lane: None, alive: Arc::default(), gate: Arc::new(Semaphore::new(0)), ends },
            ended,
        )
    }

    fn factory(&self) -> impl Fn(&Lane) -> Router + Send + Sync + 'static {
        let shared = self.clone();
        move |lane| {
            let shared = Shared { lane: Some(lane.clone()), ..shared.clone() };
            Router::new()
                .route("/echo", any(echo))
                .route("/flood", any(flood))
                .route("/elsewhere", any(elsewhere))
                .route("/wait", any(wait))
                .route("/ws", any(websocket))
                .route("/101", any(async || switching("echo")))
                .route("/gate", get(gate))
                .route("/stream", get(streamed))
                .route("/big", get(async || Bytes::from(vec![b'x'; 24 << 20])))
                .route("/hello", any(async || "hello"))
                .with_state(shared)
        }
    }
}

fn serve(settings: Builder) -> (Running, Shared) {
    let (shared, _) = Shared::new();
    (Running::start(settings, shared.factory()), shared)
}

fn switching(protocol: &'static str) -> Response {
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, protocol)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Accepts an upgrade and passes its stream to `then`.
fn accept<F>(
    shared: &Shared,
    mut request: Request,
    then: impl FnOnce(TokioIo<Upgraded>) -> F + Send + 'static,
) -> Response
where
    F: Future<Output = ()> + Send,
{
    if request.extensions().get::<OnUpgrade>().is_none() {
        return (StatusCode::UPGRADE_REQUIRED, [(UPGRADE, "echo")]).into_response();
    }
    let is_http2 = request.extensions().get::<hyper::ext::Protocol>().is_some();
    let upgrade = hyper::upgrade::on(&mut request);
    let alive = Alive::new(&shared.alive);
    tokio::spawn(async move {
        let _alive = alive;
        // The request's deadline no longer applies.
        assert_eq!(corelane::deadline(), None);
        if let Ok(upgraded) = upgrade.await {
            then(TokioIo::new(upgraded)).await;
        }
    });
    if is_http2 { StatusCode::OK.into_response() } else { switching("echo") }
}

/// Echoes, then sends `end` after the client's half-close.
async fn echo(State(shared): State<Shared>, request: Request) -> Response {
    accept(&shared, request, async |mut io| {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = io.read(&mut piece).await {
            io.write_all(&piece[..n]).await.expect("the client reads");
            io.flush().await.expect("the client reads");
        }
        let _ = io.write_all(b"end").await;
        let _ = io.shutdown().await;
    })
}

async fn flood(State(shared): State<Shared>, request: Request) -> Response {
    let ends = shared.ends.clone();
    accept(&shared, request, async move |mut io| {
        let error = loop {
            if let Err(error) = io.write_all(&[b'x'; 1 << 16]).await {
                break error;
            }
        };
        let rest = io.read(&mut [0]).await.map_err(|error| error.kind());
        ends.send(format!("{:?}, then {rest:?}", error.kind())).expect("the test listens");
    })
}

async fn elsewhere(State(shared): State<Shared>, request: Request) -> Response {
    let ends = shared.ends.clone();
    accept(&shared, request, async move |mut io| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let runtime = runtime.expect("a runtime");
            let error = runtime.block_on(io.write_all(b"x")).expect_err("it is not its lane");
            drop(io);
            ends.send(error.to_string()).expect("the test listens");
        });
    })
}

/// Waits for a drain or the client, and reports which came first.
async fn wait(State(shared): State<Shared>, request: Request) -> Response {
    let mut draining = shared.lane.as_ref().expect("it has a lane").draining();
    accept(&shared, request, async move |mut io| {
        let mut byte = [0];
        loop {
            tokio::select! {
                () = &mut draining => break,
                read = io.read(&mut byte) => match read {
                    Ok(1..) => io.write_all(&byte).await.expect("the client reads"),
                    _ => return,
                },
            }
        }
        io.write_all(b"drain").await.expect("the client reads");
        io.shutdown().await.expect("the client reads");
    })
}

/// Echoes messages, and closes with code 1001 on a drain.
async fn websocket(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    let draining = shared.lane.as_ref().expect("it has a lane").draining();
    upgrade.on_upgrade(async move |mut socket: WebSocket| {
        let mut draining = draining;
        loop {
            let message = tokio::select! {
                message = socket.recv() => message,
                () = &mut draining => break,
            };
            match message {
                Some(Ok(message @ Message::Text(_))) => socket.send(message).await.expect("sent"),
                Some(Ok(_)) => {}
                _ => return,
            }
        }
        let bye = CloseFrame { code: close_code::AWAY, reason: "drain".into() };
        socket.send(Message::Close(Some(bye))).await.expect("sent");
        while let Some(Ok(_)) = socket.recv().await {}
    })
}

async fn gate(State(shared): State<Shared>) -> &'static str {
    shared.gate.acquire().await.expect("it is open").forget();
    "through"
}

/// Sends `first` immediately and `second` when the gate opens.
async fn streamed(State(shared): State<Shared>) -> Body {
    let gate = shared.gate;
    let first = stream::iter([Ok::<_, std::io::Error>("first")]);
    let second = stream::once(async move {
        gate.acquire().await.expect("it is open").forget();
        Ok("second")
    });
    Body::from_stream(first.chain(second))
}

fn offer(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
}

impl<S: Read + Write> Client<S> {
    fn upgrade(&mut self, target: &str) {
        self.send(offer(target));
        let answer = self.read_answer();
        assert_eq!(answer.status, 101, "{answer:?}");
        assert_eq!(answer.header("upgrade"), Some("echo"));
        assert_eq!(answer.header("connection"), Some("upgrade"));
        assert!(answer.header("content-length").is_none(), "{answer:?}");
    }

    fn says(&mut self, bytes: &str) {
        self.send(bytes);
        assert_eq!(self.read_until(bytes.as_bytes()), bytes);
    }
}

fn alive(shared: &Shared) -> usize {
    shared.alive.load(Ordering::SeqCst)
}

/// Handlers outlive their streams.
fn wait_for_handlers(server: &Running, shared: &Shared) {
    server.wait_until("ended", || alive(shared) == 0);
}
