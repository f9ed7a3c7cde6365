//! Connections and HTTP/2 streams that another protocol takes over.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use corelane::{Builder, Drain, Drained, Finished, Lane, Limits, Timeouts};
use futures_util::{SinkExt, StreamExt, stream};
use h2::ext::Protocol;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite;

use crate::support::tls::Authority;
use crate::support::worker::{get as get_of, http2, with_worker};
use crate::support::{
    Alive, Client, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    builder,
};

const UPGRADED: &str = "corelane_connections_upgraded{lane=\"0\"}";

/// What the handlers share with the test.
#[derive(Clone)]
struct Shared {
    lane: Option<Lane>,
    /// Handlers of upgraded streams that have not ended.
    alive: Arc<AtomicUsize>,
    /// `/gate` and `/stream` wait for a permit.
    gate: Arc<Semaphore>,
    /// What `/flood` and `/elsewhere` ended with.
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

/// Accepts the upgrade of a request, and runs `then` with its stream.
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
        // The deadline of the request does not hold for what it has become.
        assert_eq!(corelane::deadline(), None);
        if let Ok(upgraded) = upgrade.await {
            then(TokioIo::new(upgraded)).await;
        }
    });
    if is_http2 { StatusCode::OK.into_response() } else { switching("echo") }
}

/// Returns what it gets, and `end` when the client has closed its side.
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

/// Writes until that fails.
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

/// Takes the stream to another thread.
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

/// Waits for the drain, or for the client, and says which.
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

/// Echoes until the client closes, or closes with 1001 when a drain begins.
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

/// `first` at once, `second` once the gate opens.
async fn streamed(State(shared): State<Shared>) -> Body {
    let gate = shared.gate;
    let first = stream::iter([Ok::<_, std::io::Error>("first")]);
    let second = stream::once(async move {
        gate.acquire().await.expect("it is open").forget();
        Ok("second")
    });
    Body::from_stream(first.chain(second))
}

/// A request that offers another protocol.
fn offer(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
}

impl<S: Read + Write> Client<S> {
    /// Upgrades the connection.
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

/// Waits for the ends of all handlers, which follow those of their streams.
fn wait_for_handlers(server: &Running, shared: &Shared) {
    server.wait_until("ended", || alive(shared) == 0);
}

#[rstest]
fn the_stream_belongs_to_the_handler_until_both_sides_end(
    #[values(Plain, Hyper)] way: Way,
    #[values(false, true)] tls: bool,
) {
    let authority = Authority::new();
    let mut settings = way.builder().routes(["/echo"]);
    if tls {
        settings = settings.tls(authority.ready());
    }
    let (server, shared) = serve(settings);
    if tls {
        let mut client = authority.connect(server.address);
        exchange(&server, &mut client);
        client.socket.conn.send_close_notify();
        client.socket.flush().expect("write");
        assert_eq!(client.read_to_close(), b"end");
    } else {
        let mut client = server.connect();
        exchange(&server, &mut client);
        client.socket.shutdown(Shutdown::Write).expect("half a close");
        assert_eq!(client.read_to_close(), b"end", "our side is open until the handler ends it");
    }
    server.wait_for_connections(0);
    server.wait_for_metric(UPGRADED, 0.0);
    wait_for_handlers(&server, &shared);
}

/// Requests, an upgrade, and bytes that are not HTTP.
fn exchange<S: Read + Write>(server: &Running, client: &mut Client<S>) {
    assert_eq!(client.get("/hello").text(), "hello");
    client.upgrade("/echo");
    client.says("not HTTP\n");
    client.says("GET / HTTP/1.1\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
    server.wait_for_metric(UPGRADED, 1.0);
    server.wait_for_in_flight(0);
    assert_eq!(server.metric("corelane_connections{lane=\"0\"}"), 1.0);
    let series = "corelane_requests_total{lane=\"0\",route=\"/echo\",method=\"GET\",code=\"101\"}";
    assert_eq!(server.metric(series), 1.0);
    assert_eq!(server.refused("ambiguous_framing"), 0.0);
    let lanes = server.admin_get("/lanes").text();
    assert!(lanes.contains("\"upgraded\": 1,"), "{lanes}");
}

#[test]
fn bytes_of_the_other_protocol_may_come_with_the_request() {
    let (server, _) = serve(builder());
    let mut client = server.connect();
    client.send(format!("{}early", offer("/echo")));
    assert_eq!(client.read_answer().status, 101);
    assert_eq!(client.read_until(b"early"), "early");
    client.says("late");
}

#[test]
fn bytes_that_come_with_the_request_are_read_as_http_only_without_an_upgrade() {
    let (server, _) = serve(builder());
    let ambiguous = "GET / HTTP/1.1\nHost: t\r\n\r\n";
    let mut client = server.connect();
    client.send(format!("{}{ambiguous}", offer("/echo")));
    assert_eq!(client.read_answer().status, 101);
    assert_eq!(client.read_until(ambiguous.as_bytes()), ambiguous);

    let mut client = server.connect();
    client.send(format!("{}{ambiguous}", offer("/echo").replace("pgrade", "pgraded")));
    assert_eq!(client.read_answer().status, 426);
    let answer = client.read_answer();
    assert!(answer.status == 400 && answer.text().contains("ambiguous-framing"), "{answer:?}");
    assert!(client.read_to_close().is_empty());
}

#[test]
fn the_request_of_an_upgrade_ends_with_its_101() {
    let (records, recorded) = mpsc::channel();
    let settings = builder().routes(["/echo"]).observer(move |_| {
        let records = records.clone();
        move |request: &Finished<'_>| {
            let whole = request.complete && request.times.write.is_some();
            let record = (request.route.to_owned(), request.status, whole);
            records.send(record).expect("the test listens");
        }
    });
    let (server, _) = serve(settings);
    let mut client = server.connect();
    client.upgrade("/echo");
    let record = recorded.recv_timeout(PATIENCE).expect("a record");
    assert_eq!(record, ("/echo".to_owned(), Some(StatusCode::SWITCHING_PROTOCOLS), true));
    client.says("still open");
}

#[test]
fn an_upgrade_waits_for_the_replies_before_it() {
    let (server, _) = serve(builder());
    let mut client = server.connect();
    let get = "GET /big HTTP/1.1\r\nHost: t\r\n\r\n";
    client.send(format!("{get}{}", offer("/echo")));
    assert_eq!(client.read_answer().body.len(), 24 << 20);
    assert_eq!(client.read_answer().status, 101);
    client.says("after a reply that had to wait for its client");
}

#[rstest]
fn a_reply_without_an_upgrade_leaves_the_connection_as_it_is(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = serve(way.builder());
    let mut client = server.connect();
    let without_option = "GET /echo HTTP/1.1\r\nHost: t\r\nUpgrade: echo\r\n\r\n";
    let with_body = "POST /echo HTTP/1.1\r\nHost: t\r\nConnection: upgrade\r\nUpgrade: echo\r\n\
                     Content-Length: 1\r\n\r\nx";
    for request in ["GET /echo HTTP/1.1\r\nHost: t\r\n\r\n", without_option, with_body] {
        client.send(request);
        let answer = client.read_answer();
        assert_eq!((answer.status, answer.header("upgrade")), (426, Some("echo")), "{request}");
    }
    client.upgrade("/echo");
    client.says("although it was rejected before");
}

#[rstest]
fn a_handler_cannot_switch_protocols_alone(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = serve(way.builder());
    let answer = server.get("/101");
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    // The client is upgraded, but nobody takes its stream.
    let mut client = server.connect();
    client.upgrade("/101");
    assert!(client.read_to_close().is_empty());
    server.wait_for_metric(UPGRADED, 0.0);
    server.wait_for_connections(0);
}

#[test]
fn a_stream_works_only_on_its_lane_and_can_be_dropped_anywhere() {
    let (shared, ended) = Shared::new();
    let server = Running::start(builder(), shared.factory());
    let mut client = server.connect();
    client.upgrade("/elsewhere");
    let error = ended.recv_timeout(PATIENCE).expect("it ends");
    assert!(error.contains("only on the thread of its lane"), "{error}");
    assert!(client.read_to_close().is_empty());
    server.wait_for_connections(0);
    server.wait_for_metric(UPGRADED, 0.0);
}

#[rstest]
fn a_client_that_reads_nothing_is_cut_and_one_that_left_ends_the_handler(
    #[values(false, true)] tls: bool,
) {
    let (shared, ended) = Shared::new();
    let authority = Authority::new();
    let write = Duration::from_millis(400);
    let mut settings = builder().timeouts(Timeouts { write, ..Timeouts::default() });
    if tls {
        settings = settings.tls(authority.ready());
    }
    let server = Running::start(settings, shared.factory());
    let connect = || authority.connect(server.address);
    let (mut plain, mut secure) = (server.connect(), connect());
    if tls {
        secure.upgrade("/flood")
    } else {
        plain.upgrade("/flood")
    }
    let end = ended.recv_timeout(PATIENCE).expect("it is cut");
    assert!(end.starts_with("TimedOut, then "), "{end}");
    server.wait_for_metric(UPGRADED, 0.0);
    assert_eq!(server.refused("write_timeout"), 1.0);

    drop((plain, secure));
    let (mut plain, mut secure) = (server.connect(), connect());
    if tls {
        secure.upgrade("/flood")
    } else {
        plain.upgrade("/flood")
    }
    drop((plain, secure));
    let end = ended.recv_timeout(PATIENCE).expect("it has no client");
    assert!(end.starts_with("ConnectionReset") || end.starts_with("BrokenPipe"), "{end}");
    server.wait_for_connections(0);
    wait_for_handlers(&server, &shared);
}

#[rstest]
fn no_deadline_of_requests_holds_for_what_has_begun(#[values(Plain, Hyper)] way: Way) {
    let brief = Duration::from_millis(500);
    let timeouts = Timeouts { request: brief, idle: brief, header: brief, ..Timeouts::default() };
    let settings = way.builder().timeouts(timeouts).park_after(Some(brief / 3));
    let (server, shared) = serve(settings);
    let mut upgraded = server.connect();
    upgraded.upgrade("/echo");
    let mut streaming = server.connect();
    streaming.send_get("/stream");
    streaming.read_until(b"first");
    // Later than those, one request is given up after the request timeout, and a connection after the
    // idle timeout.
    let mut late = server.connect();
    assert_eq!(late.get("/gate").status, 503);
    assert!(late.read_to_close().is_empty(), "it was idle");
    upgraded.says("still here");
    assert_eq!(server.refused("idle_timeout"), 1.0);
    shared.gate.add_permits(1);
    streaming.read_until(b"second");
}

#[test]
fn an_upgraded_connection_counts_for_the_limit() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let (server, _) = serve(builder().limits(limits));
    let mut client = server.connect();
    client.upgrade("/echo");
    assert_eq!(server.connect().read_answer().status, 503);
    client.says("still here");
    drop(client);
    server.wait_for_connections(0);
    assert_eq!(server.get("/hello").status, 200);
}

#[rstest]
fn a_drain_is_announced_and_waits(#[values(Plain, Hyper)] way: Way) {
    let (server, shared) = serve(way.builder());
    let (mut told, mut other) = (server.connect(), server.connect());
    told.upgrade("/wait");
    told.says("x");
    other.upgrade("/echo");
    server.handle.drain();
    assert_eq!(told.read_to_close(), b"drain");
    other.says("a handler that does not listen goes on");
    assert!(!server.has_ended());
    drop(other);
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
    assert_eq!(alive(&shared), 0);
}

#[test]
fn a_drain_that_has_begun_is_announced_at_once() {
    let drain = Drain { settle: PATIENCE, deadline: 2 * PATIENCE, ..Drain::default() };
    let (server, _) = serve(builder().drain(drain));
    server.handle.drain();
    server.wait_for_phase(corelane::Phase::Settling);
    let mut client = server.connect();
    client.upgrade("/wait");
    assert_eq!(client.read_to_close(), b"drain");
}

#[rstest]
fn the_deadline_of_a_drain_cuts_and_counts_what_does_not_end(#[values(Plain, Hyper)] way: Way) {
    let deadline = Duration::from_millis(300);
    let drain = Drain { settle: Duration::ZERO, deadline, ..Drain::default() };
    let (server, shared) = serve(way.builder().drain(drain));
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| client.upgrade("/echo"));
    server.handle.drain();
    for client in &mut clients {
        assert!(client.read_to_close().is_empty());
    }
    assert_eq!(server.join().expect("an end"), Drained { cut: 2 });
    assert_eq!(alive(&shared), 0, "the handlers were dropped");
}

#[rstest]
fn a_websocket_of_axum_works(#[values(false, true)] tls: bool) {
    let authority = Authority::new();
    let settings = if tls { builder().tls(authority.ready()) } else { builder() };
    let (server, _) = serve(settings);
    with_worker(async {
        let socket = tokio::net::TcpStream::connect(server.address).await.expect("connect");
        let end = if tls {
            let config = Arc::new(authority.client(&["http/1.1"], None));
            let connector = tokio_rustls::TlsConnector::from(config);
            let name = crate::support::tls::name();
            let socket = connector.connect(name, socket).await.expect("a handshake");
            talk(socket, "wss://localhost/ws", &server).await
        } else {
            talk(socket, "ws://localhost/ws", &server).await
        };
        assert_eq!(u16::from(end.code), 1001);
    });
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}

/// Has a text echoed, then drains the server. Returns how it closes.
async fn talk<S>(socket: S, url: &str, server: &Running) -> tungstenite::protocol::CloseFrame
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut client, reply) =
        tokio_tungstenite::client_async(url, socket).await.expect("a WebSocket");
    assert_eq!(reply.status(), 101);
    client.send(tungstenite::Message::text("hello")).await.expect("sent");
    let message = client.next().await.expect("a reply").expect("a message");
    assert_eq!(message.into_text().expect("text").as_str(), "hello");
    server.handle.drain();
    let close = client.next().await.expect("a close").expect("a message");
    let tungstenite::Message::Close(Some(frame)) = close else { panic!("{close:?}") };
    // Answers the close, and sees the end.
    while let Some(Ok(_)) = client.next().await {}
    frame
}

/// A client that may take over streams.
async fn connect(server: &Running) -> h2::client::SendRequest<Bytes> {
    let (mut client, _) = http2(server).await;
    // The settings of the server come with its first frames.
    let (reply, _) = client.send_request(get_of("/hello"), true).expect("sent");
    assert_eq!(reply.await.expect("a reply").status(), 200);
    assert!(client.is_extended_connect_protocol_enabled());
    client
}

fn request(method: &str, target: &str, protocol: Option<&'static str>) -> http::Request<()> {
    let uri = format!("http://localhost{target}");
    let mut request = http::Request::builder().method(method).uri(uri).body(()).expect("a request");
    if let Some(protocol) = protocol {
        request.extensions_mut().insert(Protocol::from_static(protocol));
    }
    request
}

async fn next(body: &mut h2::RecvStream) -> Option<Bytes> {
    let data = tokio::time::timeout(PATIENCE, body.data()).await.expect("in time");
    let data = data?.expect("a frame");
    body.flow_control().release_capacity(data.len()).expect("it was received");
    Some(data)
}

/// The frame of a client's text (RFC 6455 section 5.2), masked with zeros.
fn text_frame(text: &str) -> Bytes {
    let length = 0x80 | u8::try_from(text.len()).expect("a short text");
    [&[0x81, length, 0, 0, 0, 0], text.as_bytes()].concat().into()
}

#[test]
fn a_websocket_works_over_http2_beside_other_streams() {
    let idle = Duration::from_millis(500);
    let timeouts = Timeouts { idle, ..Timeouts::default() };
    let (server, _) = serve(builder().timeouts(timeouts).routes(["/ws"]));
    with_worker(async {
        let mut client = connect(&server).await;
        let mut asked = request("CONNECT", "/ws", Some("websocket"));
        let version = http::HeaderValue::from_static("13");
        asked.headers_mut().insert("sec-websocket-version", version);
        let (reply, mut output) = client.send_request(asked, false).expect("sent");
        let reply = reply.await.expect("a reply");
        assert_eq!(reply.status(), 200);
        let mut input = reply.into_body();
        let echoed = Bytes::from_static(b"\x81\x05hello");
        output.send_data(text_frame("hello"), false).expect("sent");
        assert_eq!(next(&mut input).await, Some(echoed.clone()));
        server.wait_for_metric(UPGRADED, 1.0);
        server.wait_for_in_flight(0);
        let labels = "lane=\"0\",route=\"/ws\",method=\"CONNECT\",code=\"200\"";
        assert_eq!(server.metric(&format!("corelane_requests_total{{{labels}}}")), 1.0);
        // A connection that was idle from then on is closed, this one is not.
        let mut late = Client::connect(server.address);
        assert_eq!(late.get("/hello").status, 200);
        assert!(late.read_to_close().is_empty());
        let (reply, _) = client.send_request(get_of("/hello"), true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 200);
        output.send_data(text_frame("hello"), false).expect("sent");
        assert_eq!(next(&mut input).await, Some(echoed));

        server.handle.drain();
        assert_eq!(next(&mut input).await, Some(Bytes::from_static(b"\x88\x07\x03\xe9drain")));
        output.send_data(Bytes::from_static(b"\x88\x82\0\0\0\0\x03\xe9"), true).expect("sent");
        assert_eq!(next(&mut input).await.filter(|data| !data.is_empty()), None);
    });
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}

#[test]
fn a_stream_of_http2_ends_for_the_handler_with_its_client() {
    let (server, shared) = serve(builder());
    with_worker(async {
        let mut client = connect(&server).await;
        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, mut output) = client.send_request(connect, false).expect("sent");
        let mut input = reply.await.expect("a reply").into_body();
        output.send_data("hello".into(), false).expect("sent");
        assert_eq!(next(&mut input).await, Some("hello".into()));
        output.send_data(Bytes::new(), true).expect("sent");
        assert_eq!(next(&mut input).await, Some("end".into()));
        server.wait_for_metric(UPGRADED, 0.0);
        wait_for_handlers(&server, &shared);

        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, mut output) = client.send_request(connect, false).expect("sent");
        let _input = reply.await.expect("a reply").into_body();
        server.wait_for_metric(UPGRADED, 1.0);
        output.send_reset(h2::Reason::CANCEL);
        server.wait_for_metric(UPGRADED, 0.0);
        wait_for_handlers(&server, &shared);
    });
}

#[test]
fn connect_without_a_protocol_and_101_are_not_for_http2() {
    let (server, _) = serve(builder());
    with_worker(async {
        let mut client = connect(&server).await;
        let plain = http::Request::builder().method("CONNECT").uri("localhost:80").body(());
        let (reply, _) = client.send_request(plain.expect("a request"), true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 501);
        for protocol in [None, Some("echo")] {
            let method = if protocol.is_some() { "CONNECT" } else { "GET" };
            let (reply, _) =
                client.send_request(request(method, "/101", protocol), true).expect("sent");
            assert_eq!(reply.await.expect("a reply").status(), 500, "{protocol:?}");
        }
        let refused = request("CONNECT", "/nowhere", Some("echo"));
        let (reply, _) = client.send_request(refused, true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 404);
    });
    server.wait_for_metric(UPGRADED, 0.0);
}

#[test]
fn a_drain_cuts_a_stream_of_http2_that_does_not_end() {
    let deadline = Duration::from_millis(300);
    let drain = Drain { settle: Duration::ZERO, deadline, ..Drain::default() };
    let (server, shared) = serve(builder().drain(drain));
    let cut = with_worker(async {
        let mut client = connect(&server).await;
        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, _output) = client.send_request(connect, false).expect("sent");
        let _input = reply.await.expect("a reply").into_body();
        server.wait_for_metric(UPGRADED, 1.0);
        server.handle.drain();
        server.join().expect("an end").cut
    });
    assert_eq!(cut, 1);
    assert_eq!(alive(&shared), 0);
}
