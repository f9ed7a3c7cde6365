//! Tests that clients do not notice when idle connections are parked.

use std::io::Write;
use std::net::Shutdown;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::support::tls::Authority;
use crate::support::{Handlers, PATIENCE, Running};
use bytes::Bytes;
use corelane::{Builder, Drained, Incoming, Limits, Phase, Timeouts};
use http::{Request, Response};
use http_body_util::Full;

const CLEAN: Drained = Drained { cut: 0 };

const SOON: Duration = Duration::from_millis(100);

const SECOND: Duration = Duration::from_secs(1);

fn builder() -> Builder {
    crate::support::builder().park_after(Some(SOON))
}

fn start(builder: Builder) -> Running {
    Running::start(builder, Handlers::new().factory())
}

impl Running {
    pub(crate) fn wait_for_parked(&self, connections: u32) {
        let series = "corelane_connections_parked{lane=\"0\"}";
        self.wait_until("parked", || self.metric(series) == f64::from(connections));
    }

    fn parkings(&self) -> f64 {
        self.metric("corelane_connection_parkings_total{lane=\"0\"}")
    }

    fn woken(&self, reason: &str) -> f64 {
        let family = "corelane_connection_wakes_total";
        self.metric(&format!("{family}{{lane=\"0\",reason=\"{reason}\"}}"))
    }
}

fn post(body: &str) -> String {
    format!("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn the_first_byte_wakes_a_parked_connection() {
    let server = start(builder());
    let mut client = server.connect();
    // Requests are served by hyper, by hyper after parking, and without hyper.
    for request in [post("a body"), post("another"), post("")] {
        client.send(request);
        assert_eq!(client.read_answer().status, 200);
        server.wait_for_parked(1);
        let (parkings, woken) = (server.parkings(), server.woken("bytes"));
        assert_eq!(parkings, woken + 1.0);
        server.wait_for_connections(1);
        assert_eq!(client.get("/hello").text(), "hello");
        assert_eq!(server.woken("bytes"), woken + 1.0);
        server.wait_for_parked(1);
        client.send("G");
        server.wait_until("woken", || server.woken("bytes") == woken + 2.0);
        client.send("ET /hello HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(client.read_answer().text(), "hello");
    }
}

#[test]
fn what_was_read_of_a_head_rests_with_it() {
    let server = start(builder());
    let mut client = server.connect();
    let whole = post("a body");
    let (head, rest) = whole.split_at(20);
    // The head follows a request, so that hyper reads ahead.
    client.send(format!("{}{head}", post("before")));
    assert_eq!(client.read_answer().text(), "before");
    server.wait_for_parked(1);
    let parkings = server.parkings();
    let (more, rest) = rest.split_at(20);
    client.send(more);
    server.wait_until("parked again", || server.parkings() > parkings);
    client.send(rest);
    assert_eq!(client.read_answer().text(), "a body");
    assert_eq!(client.get("/hello").status, 200);
}

#[test]
fn many_are_parked_and_woken_at_once() {
    const CLIENTS: u32 = 300;
    let server = start(builder());
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(post("first"));
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.read_answer().text(), "first"));
    server.wait_for_parked(CLIENTS);
    for (client, number) in clients.iter_mut().zip(0..) {
        client.send(post(&format!("{number}")));
    }
    for (client, number) in clients.iter_mut().zip(0..) {
        assert_eq!(client.read_answer().text(), format!("{number}"));
    }
    server.wait_for_connections(CLIENTS);
    server.wait_for_parked(CLIENTS);
    drop(clients);
    server.wait_for_connections(0);
    server.wait_for_parked(0);
}

#[test]
fn a_head_that_is_parked_is_late_by_its_own_deadline() {
    let timeouts = Timeouts { header: 2 * SECOND, ..Timeouts::default() };
    let server = start(builder().timeouts(timeouts));
    for (method, has_body) in [("POST", true), ("HEAD", false)] {
        let before = server.refused("header_timeout");
        let mut client = server.connect();
        assert_eq!(client.get("/hello").status, 200);
        server.wait_for_parked(1);
        let begun = Instant::now();
        client.send(format!("{method} /echo"));
        server.wait_for_parked(0);
        // Bytes wake the connection but do not extend its deadline.
        client.socket.set_read_timeout(Some(2 * SOON)).expect("a time-out");
        let mut ended = [0];
        while client.socket.peek(&mut ended).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it is kept for ever");
            client.send("x");
        }
        assert!(begun.elapsed() >= 2 * SECOND, "{:?}", begun.elapsed());
        let answer = if has_body { client.read_answer() } else { client.read_head_answer() };
        assert!(answer.status == 408 && answer.closes(), "{answer:?}");
        assert!(client.read_to_close().is_empty());
        assert_eq!(server.refused("header_timeout"), before + 1.0);
        server.wait_for_connections(0);
    }
    assert!(server.parkings() > 2.0, "it was parked with a part of a head");
}

#[test]
fn a_connection_that_is_parked_ends_when_it_is_idle_for_too_long() {
    let timeouts = Timeouts { idle: SECOND, ..Timeouts::default() };
    let server = start(builder().timeouts(timeouts));
    let mut client = server.connect();
    let begun = Instant::now();
    assert_eq!(client.get("/hello").status, 200);
    assert!(client.read_to_close().is_empty());
    assert!(begun.elapsed() >= SECOND, "{:?}", begun.elapsed());
    // A delayed client also parks before its request.
    assert_eq!(server.parkings(), server.woken("bytes") + 1.0);
    assert_eq!(server.woken("deadline"), 1.0);
    assert_eq!(server.refused("idle_timeout"), 1.0);
    server.wait_for_connections(0);
}

#[test]
fn a_connection_that_is_parked_grows_old() {
    let timeouts = Timeouts { connection_age: Some(2 * SECOND), ..Timeouts::default() };
    let server = start(builder().timeouts(timeouts));
    let mut client = server.connect();
    let begun = Instant::now();
    assert!(!client.get("/hello").closes());
    server.wait_for_parked(1);
    // The age of a connection is measured from the accept, not from parking.
    server.wait_until("old", || server.refused("age") == 1.0);
    assert!(client.get("/hello").closes());
    assert!(client.read_to_close().is_empty());
    // Jitter shortens the age by up to a tenth, counted from the sweep before the accept.
    assert!(begun.elapsed().as_secs_f64() >= 1.7, "{:?}", begun.elapsed());
    assert_eq!((server.refused("age"), server.refused("idle_timeout")), (1.0, 0.0));
}

#[test]
fn its_requests_are_counted_on() {
    let limits = Limits { connection_requests: Some(3), ..Limits::default() };
    let server = start(builder().limits(limits));
    let mut client = server.connect();
    for last in [false, false, true] {
        let answer = client.get("/hello");
        assert_eq!((answer.status, answer.closes()), (200, last));
        if !last {
            server.wait_for_parked(1);
        }
    }
    assert!(client.read_to_close().is_empty());
}

#[test]
fn parked_connections_count_among_the_open_ones() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start(builder().limits(limits));
    let mut clients = [server.connect(), server.connect()];
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/hello").status, 200));
    server.wait_for_parked(2);
    assert_eq!(server.get("/hello").status, 503);
    assert_eq!(server.refused("limit"), 1.0);
    let [first, mut second] = clients;
    drop(first);
    server.wait_for_connections(1);
    assert_eq!(server.get("/hello").status, 200);
    assert_eq!(second.get("/hello").status, 200);
}

#[test]
fn a_client_that_leaves_is_not_kept() {
    let server = start(builder());
    let ends: [fn(&crate::support::Client); 2] = [
        |client| client.socket.shutdown(Shutdown::Write).expect("its side closes"),
        // Closing causes a reset.
        |client| {
            let socket = socket2::SockRef::from(&client.socket);
            socket.set_linger(Some(Duration::ZERO)).expect("a reset");
        },
    ];
    for end in ends {
        let mut client = server.connect();
        assert_eq!(client.get("/hello").status, 200);
        server.wait_for_parked(1);
        end(&client);
        drop(client);
        server.wait_for_connections(0);
    }
    // Requests sent before the half-close are answered.
    let mut client = server.connect();
    assert_eq!(client.get("/hello").status, 200);
    server.wait_for_parked(1);
    client.send_get("/hello");
    client.socket.shutdown(Shutdown::Write).expect("its side closes");
    assert_eq!(client.read_answer().status, 200);
    assert!(client.read_to_close().is_empty());
}

#[test]
fn a_body_that_its_handler_did_not_read_is_left_behind() {
    let server = start(builder());
    // The body resembles a request, and part of the next request may arrive with it.
    let body = "GET /gate HTTP/1.1\r\nHost: test\r\n\r\n";
    let unread = post(body).replace("/echo", "/hello");
    let next = post("next");
    for come in [0, 8] {
        let mut client = server.connect();
        client.send(format!("{unread}{}", &next[..come]));
        assert_eq!(client.read_answer().text(), "hello");
        server.wait_for_parked(1);
        client.send(&next[come..]);
        assert_eq!(client.read_answer().text(), "next");
        drop(client);
        server.wait_for_connections(0);
    }
}

#[test]
fn a_drain_ends_parked_connections_and_waits_for_requests() {
    let handlers = Handlers::new();
    let server = Running::start(builder(), handlers.factory());
    let mut parked: Vec<_> = (0..40).map(|_| server.connect()).collect();
    for client in &mut parked {
        assert_eq!(client.get("/hello").status, 200);
    }
    let mut half = server.connect();
    half.send(format!("{}{}", post(""), &post("late")[..30]));
    assert_eq!(half.read_answer().status, 200);
    server.wait_for_parked(41);
    let mut busy = server.connect();
    busy.send_get("/gate");
    server.wait_for_in_flight(1);

    server.handle.drain();
    parked.iter_mut().for_each(|client| assert!(client.read_to_close().is_empty()));
    assert_eq!(server.woken("drain"), 40.0);
    half.send(&post("late")[30..]);
    let answer = half.read_answer();
    assert!(answer.text() == "late" && answer.closes(), "its request had begun: {answer:?}");
    handlers.gate.add_permits(1);
    let answer = busy.read_answer();
    assert!(answer.text() == "through" && answer.closes(), "{answer:?}");
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[test]
fn a_drain_answers_what_waits_in_the_sockets_of_parked_connections() {
    const CLIENTS: u32 = 200;
    let (hold, held) = mpsc::channel::<()>();
    let held = Arc::new(Mutex::new(held));
    let server = Running::start(builder(), move |_lane| {
        let held = Arc::clone(&held);
        tower::service_fn(move |request: Request<Incoming>| {
            if request.uri().path() == "/hold" {
                // Blocks the lane, which then reads nothing.
                let _ = held.lock().expect("one at a time").recv_timeout(PATIENCE);
            }
            async { Ok::<_, crate::support::BoxError>(Response::new(Full::<Bytes>::from("hello"))) }
        })
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/hello").status, 200));
    server.wait_for_parked(CLIENTS);
    let mut holder = server.connect();
    holder.send_get("/hold");
    server.wait_for_in_flight(1);
    clients.iter_mut().for_each(|client| client.send_get("/hello"));
    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    hold.send(()).expect("the lane is held");
    for client in &mut clients {
        let answer = client.read_answer();
        assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    }
    assert_eq!(holder.read_answer().status, 200);
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[test]
fn connections_with_tls_are_parked_as_well() {
    let authority = Authority::new();
    let timeouts = Timeouts { idle: 2 * SECOND, ..Timeouts::default() };
    let server = start(builder().tls(authority.ready()).timeouts(timeouts));
    let mut client = authority.connect(server.address);
    assert_eq!(client.get("/hello").status, 200);
    server.wait_for_parked(1);
    client.send(post("a body"));
    assert_eq!(client.read_answer().text(), "a body");
    server.wait_for_parked(1);
    let begun = Instant::now();
    // Partial TLS records also survive parking.
    let (session, socket) = (&mut client.socket.conn, &mut client.socket.sock);
    session.writer().write_all(post("in pieces").as_bytes()).expect("room");
    let mut records = Vec::new();
    session.write_tls(&mut records).expect("records");
    let (first, rest) = records.split_at(7);
    let woken = server.woken("bytes");
    socket.write_all(first).expect("write");
    server.wait_until("woken", || server.woken("bytes") > woken);
    server.wait_for_parked(1);
    socket.write_all(rest).expect("write");
    assert_eq!(client.read_answer().text(), "in pieces");
    server.wait_for_parked(1);
    // Reading fails if `close_notify` is missing.
    assert!(client.read_to_close().is_empty());
    assert!(begun.elapsed() >= 2 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(server.refused("idle_timeout"), 1.0);
}

#[test]
fn a_drain_says_goodbye_to_parked_connections_with_tls() {
    let authority = Authority::new();
    let server = start(builder().tls(authority.ready()));
    let mut clients: Vec<_> = (0..5).map(|_| authority.connect(server.address)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/hello").status, 200));
    server.wait_for_parked(5);
    server.handle.drain();
    clients.iter_mut().for_each(|client| assert!(client.read_to_close().is_empty()));
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[test]
fn nothing_is_parked_where_that_is_off() {
    let timeouts = Timeouts { idle: SECOND, ..Timeouts::default() };
    let server = start(crate::support::builder().park_after(None).timeouts(timeouts));
    let mut client = server.connect();
    assert_eq!(client.get("/hello").status, 200);
    assert!(client.read_to_close().is_empty());
    assert_eq!((server.parkings(), server.refused("idle_timeout")), (0.0, 1.0));
}
