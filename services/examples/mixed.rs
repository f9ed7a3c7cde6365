//! Every kind of exchange on one port: pages, server-sent events, WebSockets and gRPC. All
//! exchanges end when a drain starts, so that no client is cut off.
//!
//! ```sh
//! VERSION=2 cargo run -p corelane-examples --bin mixed 127.0.0.1:8080 127.0.0.1:8081
//! curl http://127.0.0.1:8080/
//! curl -N http://127.0.0.1:8080/events
//! websocat ws://127.0.0.1:8080/echo
//! ```
//!
//! With mutual TLS, the service admits a single client: the TLS variable names a folder with
//! `tls.crt`, `tls.key` and `ca.crt`, and the CLIENT variable names the client's identity.
//!
//! gRPC calls, including `grpc.health.v1.Health/Check`, are ordinary axum routes:
//!
//! ```text
//! service Talk {
//!   rpc Who (Line) returns (Line);
//!   rpc Echo (stream Line) returns (stream Line);
//! }
//! ```

use std::convert::Infallible;
use std::env;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Request, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use corelane::axum::LearnRoutes;
use corelane::{Draining, Lane, Server, Tls, TlsClients};
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use http::HeaderValue;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone)]
struct Service {
    lane: Lane,
    name: Arc<str>,
}

async fn page(State(service): State<Service>) -> String {
    format!("{}\n", service.name)
}

/// Sends only heartbeats until the drain, then an event that asks the client to reconnect.
async fn events(
    State(service): State<Service>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let bye = Event::default().event("bye").retry(Duration::from_secs(1)).data("draining");
    let events = stream::once(service.lane.draining().map(|()| Ok(bye)));
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(1)))
}

// `any`, because a WebSocket over HTTP/2 starts with CONNECT, not GET.
async fn echo(State(service): State<Service>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |socket| repeat(socket, service.lane.draining()).await)
}

/// Echoes messages until the drain, and then closes the WebSocket with code 1001.
async fn repeat(mut socket: WebSocket, mut draining: Draining) {
    loop {
        let message = tokio::select! {
            message = socket.recv() => message,
            () = &mut draining => break,
        };
        let Some(Ok(message)) = message else { return };
        if matches!(message, Message::Text(_) | Message::Binary(_))
            && socket.send(message).await.is_err()
        {
            return;
        }
    }
    let frame = CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::default() };
    if socket.send(Message::Close(Some(frame))).await.is_ok() {
        // Closing before the client does could lose the frame.
        while let Some(Ok(_)) = socket.recv().await {}
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Line {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

async fn who(State(service): State<Service>, request: Request) -> impl IntoResponse {
    let who = tower::service_fn(async |_: tonic::Request<Line>| {
        Ok::<_, Status>(tonic::Response::new(Line { text: service.name.to_string() }))
    });
    Grpc::new(ProstCodec::<Line, Line>::default()).unary(who, request).await
}

async fn talk(State(service): State<Service>, request: Request) -> impl IntoResponse {
    let talk = tower::service_fn(async |call: tonic::Request<Streaming<Line>>| {
        let lines = until_drain(call.into_inner(), service.lane.draining());
        Ok::<_, Status>(tonic::Response::new(lines))
    });
    Grpc::new(ProstCodec::<Line, Line>::default()).streaming(talk, request).await
}

/// Forwards the lines. When the drain starts, ends with a status that asks the client to call
/// again.
fn until_drain(
    lines: Streaming<Line>,
    draining: Draining,
) -> impl Stream<Item = Result<Line, Status>> {
    stream::unfold(Some((lines, draining)), async |open| {
        let (mut lines, mut draining) = open?;
        tokio::select! {
            line = lines.next() => Some((line?, Some((lines, draining)))),
            () = &mut draining => Some((Err(Status::unavailable("this replica drains")), None)),
        }
    })
}

/// Reports that it is serving until the gateway has noticed the drain.
async fn health(request: Request) -> impl IntoResponse {
    let serving = tower::service_fn(async |_: tonic::Request<Line>| {
        Ok::<_, Status>(tonic::Response::new(Health { status: 1 }))
    });
    Grpc::new(ProstCodec::<Health, Line>::default()).unary(serving, request).await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut addresses = env::args().skip(1);
    let address = addresses.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let admin = addresses.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    // Kubernetes sets the variable to the pod's name.
    let replica = env::var("HOSTNAME").unwrap_or_else(|_| "mixed".to_owned());
    let version = env::var("VERSION").unwrap_or_else(|_| "1".to_owned());
    let mut server = Server::builder()
        .bind(address.parse()?)
        .admin(admin.parse::<SocketAddr>()?)
        .replica(HeaderValue::from_str(&replica)?);
    if let (Ok(folder), Ok(client)) = (env::var("TLS"), env::var("CLIENT")) {
        let file = |name: &str| Path::new(&folder).join(name);
        let mut tls = Tls::new(file("tls.crt"), file("tls.key"));
        tls.clients = Some(TlsClients { ca: file("ca.crt"), allow: vec![client.parse()?] });
        server = server.tls(tls);
    }
    let server = server.build()?;
    println!("listening on {}", server.local_addr()?);
    let name: Arc<str> = format!("{replica} {version}").into();
    let drained = server.serve(move |lane| {
        Router::new()
            .route("/", get(page))
            .route("/events", get(events))
            .route("/echo", any(echo))
            .route("/example.Talk/Who", post(who))
            .route("/example.Talk/Echo", post(talk))
            .route("/grpc.health.v1.Health/Check", post(health))
            .layer(LearnRoutes)
            .with_state(Service { lane: lane.clone(), name: name.clone() })
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
