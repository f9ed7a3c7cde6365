//! Upgraded HTTP/1.1 connections.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::http::StatusCode;
use corelane::{Drain, Drained, Finished, Limits, Timeouts};
use futures_util::{SinkExt, StreamExt};
use rstest::rstest;
use tokio_tungstenite::tungstenite;

use super::{Shared, UPGRADED, alive, offer, serve, wait_for_handlers};
use crate::support::tls::Authority;
use crate::support::worker::with_worker;
use crate::support::{
    Client, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    builder,
};

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

/// Requests, an upgrade, then bytes that are not HTTP.
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
    // This connection is upgraded, but no handler takes the stream.
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
    // By then one request has timed out and one connection has been idle for too long.
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

/// Echoes one message, drains the server and returns the close frame.
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
    // Answers the close frame and reads to the end.
    while let Some(Ok(_)) = client.next().await {}
    frame
}
