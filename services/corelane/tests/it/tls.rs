//! TLS from the client's side. `read_to_close` fails without `close_notify`.

use std::io::Write;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use crate::support::tls::{Authority, connect, name};
use crate::support::{
    BIG, DISTANT, Handlers, Running, Way,
    Way::{Hyper, Plain},
    big,
    worker::with_worker,
};
use corelane::{Drain, Drained, Limits, Phase, Timeouts};
use http::Request;
use rstest::rstest;
use rustls::{ClientConnection, ProtocolVersion};

const CLEAN: Drained = Drained { cut: 0 };

fn start(way: Way, authority: &Authority) -> Running {
    Running::start(way.builder().tls(authority.ready()), Handlers::new().factory())
}

fn refused(server: &Running, reason: &str) -> f64 {
    server.metric(&format!("corelane_connections_refused_total{{lane=\"0\",reason=\"{reason}\"}}"))
}

pub(crate) fn handshakes(server: &Running, result: &str) -> f64 {
    server.metric(&format!("corelane_tls_handshakes_total{{lane=\"0\",result=\"{result}\"}}"))
}

#[rstest]
fn http1_is_served_over_tls_1_2_and_1_3_with_and_without_alpn(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
        for alpn in [&["http/1.1"][..], &[]] {
            let config = Arc::new(authority.client(alpn, Some(version)));
            let mut client = connect(server.address, &config);
            for _ in 0..2 {
                let answer = client.get("/hello");
                assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
            }
            assert_eq!(client.version(), Some(version));
            let agreed = client.socket.conn.alpn_protocol();
            assert_eq!(agreed, alpn.first().map(|name| name.as_bytes()));
        }
    }
    assert_eq!(handshakes(&server, "success"), 4.0);
    assert_eq!(handshakes(&server, "failure"), 0.0);
}

#[rstest]
fn http2_is_spoken_where_alpn_or_the_preface_says_so(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    with_worker(async {
        for alpn in [&["h2", "http/1.1"][..], &[]] {
            let config = Arc::new(authority.client(alpn, None));
            let socket = tokio::net::TcpStream::connect(server.address).await.expect("connect");
            let connector = tokio_rustls::TlsConnector::from(config);
            let stream = connector.connect(name(), socket).await.expect("a handshake");
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            assert_eq!(agreed, alpn.first().map(|name| name.as_bytes().to_vec()));
            let (client, connection) = h2::client::handshake(stream).await.expect("a preface");
            tokio::spawn(connection);
            let mut client = client.ready().await.expect("ready");
            let request = Request::get("https://localhost/hello").body(()).expect("a request");
            let (reply, _) = client.send_request(request, true).expect("sent");
            assert_eq!(reply.await.expect("a reply").status(), 200);
        }
    });
}

#[rstest]
fn a_client_without_a_common_protocol_is_told_so(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    let config = Arc::new(authority.client(&["spdy/3"], None));
    let error = connect(server.address, &config).refused();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    server.wait_until("counted", || refused(&server, "handshake") == 1.0);
    assert_eq!(handshakes(&server, "failure"), 1.0);
    assert_eq!(authority.connect(server.address).get("/hello").status, 200);
}

#[rstest]
fn a_connection_ends_with_words_after_an_upgrade_was_refused(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    let last = "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (last, status) in [(last, 200), ("no request\r\n\r\n", 400)] {
        let mut client = authority.connect(server.address);
        client.send(
            "GET /hello HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        assert_eq!(client.read_answer().status, 200);
        client.send(last);
        assert_eq!(client.read_answer().status, status);
        assert_eq!(client.read_to_close(), b"");
    }
    server.wait_until("counted", || refused(&server, "bad_request") == 1.0);
}

#[rstest]
fn sessions_resume(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    for version in [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3] {
        let config = Arc::new(authority.client(&["http/1.1"], Some(version)));
        let resumed = [(); 2].map(|()| {
            let mut client = connect(server.address, &config);
            assert_eq!(client.get("/hello").status, 200);
            client.resumed()
        });
        assert_eq!(resumed, [false, true], "{version:?}");
    }
}

#[rstest]
fn the_header_deadline_covers_the_handshake(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let timeouts = Timeouts { header: Duration::from_secs(1), ..Timeouts::default() };
    let builder = way.builder().tls(authority.ready()).timeouts(timeouts);
    let server = Running::start(builder, Handlers::new().factory());

    let hello = client_hello(&authority);
    let mut slow = server.connect();
    slow.send(&hello[..20]);
    assert!(slow.read_to_close().is_empty());
    assert_eq!((refused(&server, "handshake_timeout"), handshakes(&server, "timeout")), (1.0, 1.0));

    assert!(server.connect().read_to_close().is_empty(), "a client that says nothing");
    assert_eq!((refused(&server, "header_timeout"), handshakes(&server, "timeout")), (1.0, 1.0));

    let mut undecided = authority.connect(server.address);
    undecided.socket.conn.complete_io(&mut undecided.socket.sock).expect("a handshake");
    assert!(undecided.read_to_close().is_empty(), "a client that only shakes hands");
    assert_eq!((refused(&server, "header_timeout"), handshakes(&server, "success")), (2.0, 1.0));

    let mut late = authority.connect(server.address);
    late.send("GET / HTTP/1.1\r\nHost: te");
    assert_eq!(late.read_answer().status, 408);
    assert!(late.read_to_close().is_empty());
}

fn client_hello(authority: &Authority) -> Vec<u8> {
    let config = Arc::new(authority.client(&["http/1.1"], None));
    let mut session = ClientConnection::new(config, name()).expect("a session");
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).expect("a message");
    bytes
}

#[rstest]
fn a_request_without_tls_is_told_so(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let server = start(way, &authority);
    let answer = server.get("/hello");
    assert_eq!(answer.status, 400);
    assert!(answer.closes() && answer.text().contains("urn:corelane:problem:plain-http"));
    assert_eq!(refused(&server, "plain_http"), 1.0);
    let mut noise = server.connect();
    noise.send([0x80; 64]);
    noise.read_to_close();
    server.wait_until("counted", || refused(&server, "handshake") == 1.0);
    assert_eq!(authority.connect(server.address).get("/hello").status, 200);
}

#[rstest]
fn one_connection_too_many_is_closed_and_the_next_is_welcome_again(
    #[values(Plain, Hyper)] way: Way,
) {
    let authority = Authority::new();
    let limits = Limits { connections: 1, ..Limits::default() };
    let builder = way.builder().tls(authority.ready()).limits(limits);
    let server = Running::start(builder, Handlers::new().factory());
    let mut one = authority.connect(server.address);
    assert_eq!(one.get("/hello").status, 200);
    authority.connect(server.address).refused();
    assert_eq!((refused(&server, "limit"), handshakes(&server, "failure")), (1.0, 0.0));
    drop(one);
    server.wait_until("none", || server.metric("corelane_connections{lane=\"0\"}") == 0.0);
    assert_eq!(authority.connect(server.address).get("/hello").status, 200);
}

#[rstest]
fn a_refused_upload_is_told_why(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let builder = way.builder().tls(authority.ready()).limits(limits);
    let server = Running::start(builder, Handlers::new().factory());
    let body = vec![0; 2 << 20];
    for _ in 0..10 {
        let mut client = authority.connect(server.address);
        let length = body.len();
        client.send(format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n"));
        client.send(&body);
        client.socket.conn.send_close_notify();
        client.socket.flush().expect("the rest");
        client.socket.sock.shutdown(Shutdown::Write).expect("half a close");
        assert!(client.read_to_close().starts_with(b"HTTP/1.1 413"));
    }
}

#[rstest]
fn a_client_that_reads_slowly_gets_its_whole_reply_in_a_drain(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    let brief = Duration::from_millis(500);
    let timeouts = Timeouts { header: brief, idle: brief, ..Timeouts::default() };
    let builder = way.builder().tls(authority.ready()).timeouts(timeouts);
    let server = Running::start(builder, big);
    let mut client = authority.connect(server.address);
    client.send_get("/");
    let (begun, _) = client.read_slowly(1 << 20);
    server.handle.drain();
    assert!(begun + client.read_slowly(BIG - begun).0 >= BIG);
    assert!(client.read_to_close().len() < 64 << 10, "and a clean end");
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn a_drain_finishes_what_is_in_flight_and_says_goodbye_to_the_idle(
    #[values(Plain, Hyper)] way: Way,
) {
    let authority = Authority::new();
    let handlers = Handlers::new();
    let server = Running::start(way.builder().tls(authority.ready()), handlers.factory());
    let mut idle = authority.connect(server.address);
    assert_eq!(idle.get("/hello").status, 200);
    let mut busy = authority.connect(server.address);
    busy.send_get("/gate");
    server.wait_for_in_flight(1);

    server.handle.drain();
    assert!(idle.read_to_close().is_empty());
    handlers.gate.add_permits(1);
    let answer = busy.read_answer();
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    assert!(busy.read_to_close().is_empty());
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn a_handshake_that_began_before_the_drain_is_served(#[values(Plain, Hyper)] way: Way) {
    let authority = Authority::new();
    // The deadline is longer than a closing lane waits for a silent connection.
    let drain =
        Drain { settle: Duration::from_millis(1500), deadline: DISTANT, ..Drain::default() };
    let builder = way.builder().tls(authority.ready()).drain(drain);
    let server = Running::start(builder, Handlers::new().factory());
    let mut silent = server.connect();
    let mut client = authority.connect(server.address);
    let mut hello = Vec::new();
    client.socket.conn.write_tls(&mut hello).expect("a message");
    client.socket.sock.write_all(&hello[..20]).expect("write");
    server.wait_until("both", || server.metric("corelane_connections{lane=\"0\"}") == 2.0);

    server.handle.drain();
    assert!(silent.read_to_close().is_empty(), "the lane has looked at its connections");
    assert_eq!(server.handle.phase(), Phase::Closing);
    client.socket.sock.write_all(&hello[20..]).expect("write");
    let answer = client.get("/hello");
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    assert!(client.read_to_close().is_empty());
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}
