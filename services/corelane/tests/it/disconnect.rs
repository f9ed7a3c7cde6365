//! Cancels the requests of disconnected clients.

use std::convert::Infallible;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::support::{
    Alive, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    worker::{get, http2, with_worker},
};
use bytes::Bytes;
use corelane::{Incoming, Limits};
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use rstest::rstest;

/// Starts a server with one slot and room for one queued request.
fn start(way: Way) -> (Running, Handlers) {
    let handlers = Handlers::new();
    let limits = Limits { slots: 1, queue: 1, ..Limits::default() };
    (Running::start(way.builder().limits(limits), handlers.factory()), handlers)
}

/// Waits for the counter of abandoned requests.
fn wait_for_left(server: &Running, requests: u32) {
    let family = "corelane_requests_total{lane=\"0\",route=\"other\",method=\"GET\"";
    let series = format!("{family},code=\"499\"}} {requests}");
    let count = || server.admin_get("/metrics").text().lines().any(|line| line == series);
    server.wait_until("left", count);
}

#[rstest]
fn a_handler_that_runs_is_dropped_and_its_slot_is_free(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    drop(client);
    server.wait_until("dropped", || handlers.alive() == 0);
    server.wait_for_connections(0);
    wait_for_left(&server, 1);
    assert_eq!(server.get("/hello").status, 200);
}

#[rstest]
fn a_client_that_only_ends_its_side_is_taken_to_have_left(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    client.socket.shutdown(Shutdown::Write).expect("half a close");
    assert!(client.read_to_close().is_empty());
    server.wait_until("dropped", || handlers.alive() == 0);
    wait_for_left(&server, 1);
}

#[rstest]
fn a_close_is_heard_behind_what_nobody_asked_for(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    for behind in ["", "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n"] {
        let mut client = server.connect();
        client.send("POST /gate HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nbody");
        client.send(behind);
        server.wait_until("running", || handlers.alive() == 1);
        drop(client);
        server.wait_until("dropped", || handlers.alive() == 0);
    }
    server.wait_for_connections(0);
}

#[rstest]
fn what_was_read_ahead_is_not_lost(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    // This request is sent in pieces and is larger than the read-ahead buffer.
    let next = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10000\r\n\r\n";
    client.send(next);
    for _ in 0..100 {
        client.send("0123456789".repeat(10));
    }
    client.send_get("/hello");
    handlers.gate.add_permits(1);
    assert_eq!(client.read_answer().text(), "through");
    assert_eq!(client.read_answer().text(), "0123456789".repeat(1000));
    assert_eq!(client.read_answer().text(), "hello");
}

#[rstest]
fn a_request_that_waits_for_a_slot_gives_up_its_place(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let mut running = server.connect();
    running.send_get("/gate");
    server.wait_for_in_flight(1);
    let mut waiting = server.connect();
    waiting.send_get("/gate");
    server.wait_for_in_flight(2);
    assert_eq!(server.get("/hello").status, 503, "one waits, as many as may");
    drop(waiting);
    server.wait_until("left", || server.metric("corelane_connections{lane=\"0\"}") == 1.0);
    wait_for_left(&server, 1);

    let mut next = server.connect();
    next.send_get("/hello");
    server.wait_for_in_flight(2);
    handlers.gate.add_permits(1);
    assert_eq!((running.read_answer().status, next.read_answer().status), (200, 200));
}

#[rstest]
fn complete_requests_whose_handlers_do_not_wait_are_answered(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = start(way);
    for _ in 0..50 {
        let mut client = server.connect();
        let hello = "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n";
        let post = "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nlast";
        client.send(format!("{}{post}", hello.repeat(20)));
        client.socket.shutdown(Shutdown::Write).expect("half a close");
        let replies = String::from_utf8(client.read_to_close()).expect("text");
        assert_eq!(replies.matches("HTTP/1.1 200").count(), 21, "{replies}");
        assert!(replies.ends_with("last"));
    }
    server.wait_for_connections(0);
    assert!(!server.admin_get("/metrics").text().contains("code=\"499\""));
}

#[rstest]
fn a_whole_body_is_answered_and_half_of_one_is_not_waited_for(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let post = |body: &str| {
        let mut client = server.connect();
        client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
        server.wait_until("reading", || handlers.alive() == 1);
        client.send(body);
        client.socket.shutdown(Shutdown::Write).expect("half a close");
        String::from_utf8(client.read_to_close()).expect("text")
    };
    for _ in 0..10 {
        assert!(post(&"x".repeat(100_000)).starts_with("HTTP/1.1 200"));
        assert!(post(&"x".repeat(50_000)).starts_with("HTTP/1.1 400"));
    }
    server.wait_for_connections(0);
    server.wait_for_in_flight(0);
}

#[rstest]
fn a_reply_that_is_being_written_is_finished(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    let mut client = server.connect();
    client.send_get("/big");
    let (begun, _) = client.read_slowly(1 << 20);
    client.socket.shutdown(Shutdown::Write).expect("half a close");
    assert!(begun + client.read_slowly(crate::support::BIG - begun).0 >= crate::support::BIG);
    server.wait_for_connections(0);
    server.wait_until("freed", || handlers.alive() == 0);
}

#[rstest]
fn a_reply_that_waits_for_its_service_is_dropped(#[values(Plain, Hyper)] way: Way) {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let server = Running::start(way.builder(), move |_lane| {
        let count = Arc::clone(&count);
        tower::service_fn(move |_request: Request<Incoming>| {
            let alive = Alive::new(&count);
            let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("first")))]);
            let endless = first.chain(stream::pending()).inspect(move |_| _ = &alive);
            async move { Ok::<_, Infallible>(Response::new(StreamBody::new(endless))) }
        })
    });
    let mut client = server.connect();
    client.send_get("/");
    server.wait_for_in_flight(1);
    assert!(client.read_answer().head.contains("200 OK"));
    drop(client);
    let alive = || alive.load(std::sync::atomic::Ordering::SeqCst);
    server.wait_until("dropped", || alive() == 0);
    server.wait_for_connections(0);
}

fn with_http2<F: Future>(
    server: &Running,
    test: impl FnOnce(
        h2::client::SendRequest<Bytes>,
        tokio::task::JoinHandle<Result<(), h2::Error>>,
    ) -> F,
) {
    with_worker(async {
        let (client, connection) = http2(server).await;
        tokio::time::timeout(PATIENCE, test(client, connection)).await.expect("in time");
    });
}

#[rstest]
fn a_stream_that_is_reset_cancels_its_request_alone(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    with_http2(&server, async |mut client, _connection| {
        let (reply, mut stream) = client.send_request(get("/gate"), true).expect("sent");
        server.wait_until("running", || handlers.alive() == 1);
        stream.send_reset(h2::Reason::CANCEL);
        drop(reply);
        server.wait_until("dropped", || handlers.alive() == 0);
        let (reply, _) = client.send_request(get("/hello"), true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 200, "the slot is free");
        wait_for_left(&server, 1);
    });
}

#[rstest]
fn a_lost_http2_connection_cancels_all_its_requests(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = start(way);
    with_http2(&server, async |mut client, connection| {
        let (running, _) = client.send_request(get("/gate"), true).expect("sent");
        let (waiting, _) = client.send_request(get("/gate"), true).expect("sent");
        server.wait_for_in_flight(2);
        connection.abort();
        server.wait_until("dropped", || handlers.alive() == 0);
        drop((running, waiting));
    });
    server.wait_for_connections(0);
    server.wait_for_in_flight(0);
    wait_for_left(&server, 2);
    assert_eq!(server.get("/hello").status, 200);
}
