//! Deadlines for HTTP/1.1 clients, and how precisely the server keeps them.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use corelane::{Incoming, Lane, Limits, Timeouts};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::{BRIEF, impatient, start, strict, wait_until_freed, with_limits};
use crate::support::{
    BIG, BoxError, Client, DISTANT, Handlers, Running, Way,
    Way::{Hyper, Plain},
    big,
};
use rstest::rstest;

#[rstest]
fn a_header_that_does_not_end_is_answered_408(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, impatient());
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: te");
    let answer = client.read_answer();
    assert_eq!(answer.status, 408);
    assert!(answer.closes());
    assert!(client.read_to_close().is_empty());
    assert_eq!(server.refused("header_timeout"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn the_header_time_begins_with_the_first_byte_of_a_head_however_it_comes(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, handlers) =
        strict(way, Timeouts { header: BRIEF, idle: DISTANT, ..Timeouts::default() });
    let fields =
        ["", "TE: trailers\r\n", "Content-Length: 2\r\n", "Transfer-Encoding: chunked\r\n"];
    let mut late = 0;
    for (fields, body) in fields.into_iter().zip(["", "", "ab", "2\r\nab\r\n0\r\n\r\n"]) {
        let whole = format!("POST / HTTP/1.1\r\nHost: t\r\n{fields}\r\n{body}");
        for begun in
            ["P", "GET / HT", "GET / HTTP/1.1\r\nHost: t\r\nA", "GET http://t/ HTTP/1.1\r\n"]
        {
            let mut client = server.connect();
            client.send(format!("{whole}{begun}"));
            assert_eq!(client.read_answer().status, 200, "{fields:?}");
            let answer = client.read_answer();
            assert_eq!((answer.status, answer.closes()), (408, true), "{fields:?} {begun:?}");
            late += 1;
        }
    }
    assert_eq!(server.refused("header_timeout"), f64::from(late));
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn the_header_deadline_is_for_the_whole_header(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, impatient());
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n");
    // With a deadline for each read, an occasional field would always reset it.
    let mut fields = 0;
    while client.socket.write_all(b"a: b\r\n").is_ok() {
        fields += 1;
        assert!(fields < 1000, "the server never gave up");
        std::thread::sleep(BRIEF / 25);
    }
    assert_eq!(server.refused("header_timeout"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn silent_and_idle_connections_are_closed(#[values(Plain, Hyper)] way: Way) {
    // Each server has only one deadline, so no other can fire first.
    let silent = Timeouts { header: BRIEF, ..Timeouts::default() };
    let idle = Timeouts { idle: BRIEF, ..Timeouts::default() };
    for (timeouts, is_idle, reason) in
        [(silent, false, "header_timeout"), (idle, true, "idle_timeout")]
    {
        let (server, handlers) = strict(way, timeouts);
        let mut client = server.connect();
        if is_idle {
            assert_eq!(client.get("/hello").status, 200);
        }
        assert!(client.read_to_close().is_empty());
        assert_eq!(server.refused(reason), 1.0);
        wait_until_freed(&server, &handlers);
    }
}

#[rstest]
fn a_sweep_of_several_turns_misses_none(#[values(Plain, Hyper)] way: Way) {
    const CLIENTS: usize = 1100;
    let (server, handlers) = strict(way, Timeouts { idle: BRIEF, ..Timeouts::default() });
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = server.connect();
        assert_eq!(client.get("/hello").status, 200);
        clients.push(client);
    }
    clients.iter_mut().for_each(|client| assert!(client.read_to_close().is_empty()));
    assert_eq!(server.refused("idle_timeout"), CLIENTS as f64);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_request_in_flight_is_not_idle(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let server = Running::start(way.builder().timeouts(impatient()), handlers.factory());
    let mut slow = server.connect();
    slow.send_get("/gate");
    let mut idle = server.connect();
    assert_eq!(idle.get("/hello").status, 200);
    // By then the slow connection has outlived both limits.
    assert!(idle.read_to_close().is_empty());
    handlers.gate.add_permits(1);
    assert_eq!(slow.read_answer().status, 200);
}

#[rstest]
fn a_client_that_reads_slowly_is_not_idle(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().timeouts(impatient()), big);
    let mut client = server.connect();
    client.send_get("/");
    assert!(client.read_slowly(BIG).0 >= BIG);
}

#[rstest]
fn a_408_never_stands_inside_another_reply(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().timeouts(impatient()), big);
    let mut client = server.connect();
    client.send_get("/");
    let (begun, _) = client.read_slowly(1 << 20);
    client.send("GET /next HTTP/1.1\r\nHo");
    let (more, _) = client.read_slowly(BIG - begun);
    assert!(begun + more >= BIG, "the first reply is whole");
    let rest = String::from_utf8(client.read_to_close()).expect("text");
    let after = rest.trim_start_matches('x');
    assert!(after.is_empty() || after.starts_with("HTTP/1.1 408"), "{after}");
}

/// Announces `length` bytes and sends three.
fn begin_upload(server: &Running, target: &str, length: usize) -> Client {
    let mut client = server.connect();
    client
        .send(format!("POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\nabc"));
    client
}

#[rstest]
fn a_body_that_stops_coming_is_answered_408(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts { body: BRIEF, ..Timeouts::default() });
    let mut chunked = server.connect();
    chunked
        .send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    for mut client in [begin_upload(&server, "/echo", 100), chunked] {
        let answer = client.read_answer();
        assert_eq!(answer.status, 408);
        assert!(answer.closes(), "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(answer.text().contains("urn:corelane:problem:request-timeout"), "{answer:?}");
        assert!(client.read_to_close().is_empty());
    }
    assert_eq!(server.refused_requests("body_timeout"), 2.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_service_that_does_not_read_is_not_the_clients_fault(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts { body: BRIEF, ..Timeouts::default() });
    let mut unread = begin_upload(&server, "/gate", 100);
    server.wait_for_in_flight(1);
    // Both uploads have waited equally long when the first is rejected.
    assert_eq!(begin_upload(&server, "/echo", 100).read_answer().status, 408);
    handlers.gate.add_permits(1);
    assert_eq!(unread.read_answer().status, 200);
}

#[rstest]
fn a_body_that_comes_slowly_but_steadily_is_taken(#[values(Plain, Hyper)] way: Way) {
    // The timeout is longer than a busy machine can delay this test.
    let (server, _) = strict(way, Timeouts { body: Duration::from_secs(3), ..Timeouts::default() });
    let stopped = begin_upload(&server, "/echo", 100);
    stopped.socket.set_nonblocking(true).expect("a socket");
    let mut steady = begin_upload(&server, "/echo", 10_000);
    let mut sent = 3;
    // Repeats until the stalled upload is answered.
    while stopped.socket.peek(&mut [0]).is_err() {
        steady.send("x");
        sent += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    steady.send("x".repeat(10_000 - sent));
    assert_eq!(steady.read_answer().status, 200);
}

#[rstest]
fn a_drip_fed_body_is_bounded_by_the_request_deadline(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { body: 10 * BRIEF, request: 2 * BRIEF, ..Timeouts::default() };
    let (server, handlers) = strict(way, timeouts);
    let mut client = begin_upload(&server, "/echo", 1 << 20);
    client.socket.set_nonblocking(true).expect("a socket");
    while client.socket.peek(&mut [0]).is_err() {
        let _ = client.socket.write(b"x");
        std::thread::sleep(Duration::from_millis(5));
    }
    client.socket.set_nonblocking(false).expect("a socket");
    let answer = client.read_answer();
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("deadline-exceeded"), "{answer:?}");
    assert_eq!(server.refused_requests("request_timeout"), 1.0);
    drop(client);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_client_that_takes_nothing_of_its_reply_is_cut_off(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts { write: BRIEF, ..Timeouts::default() });
    let mut client = server.connect();
    client.send_get("/big");
    server.wait_until("cut off", || server.refused("write_timeout") == 1.0);
    wait_until_freed(&server, &handlers);
    // A reset: the kernel drops its buffered bytes.
    let ended = std::io::copy(&mut client.socket, &mut std::io::sink());
    let error = ended.expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[rstest]
fn a_slow_but_steady_reader_lives(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = strict(way, Timeouts { write: 2 * BRIEF, ..Timeouts::default() });
    let mut client = server.connect();
    client.send_get("/big");
    assert!(client.read_slowly(BIG).0 >= BIG);
    assert_eq!(server.refused("write_timeout"), 0.0);
}

#[rstest]
fn a_slow_handler_is_not_its_clients_fault(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { write: BRIEF, body: BRIEF, ..impatient() };
    let (server, handlers) = strict(way, timeouts);
    let mut client = begin_upload(&server, "/gate", 3);
    server.wait_for_in_flight(1);
    let mut silent = server.connect();
    assert!(silent.read_to_close().is_empty(), "every deadline has passed once");
    handlers.gate.add_permits(1);
    assert_eq!(client.read_answer().status, 200);
}

#[rstest]
fn a_preface_of_http2_that_does_not_end_is_no_way_to_stay(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, impatient());
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut clients: Vec<_> = (1..preface.len())
        .map(|at| {
            let mut client = server.connect();
            client.send(&preface[..at]);
            client
        })
        .collect();
    for client in &mut clients {
        assert!(client.read_to_close().is_empty());
    }
    let refused = "corelane_connections_refused_total{lane=\"0\",reason=\"header_timeout\"}";
    assert_eq!(server.metric(refused), clients.len() as f64);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_body_that_the_service_has_dropped_is_not_waited_for(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let gate = handlers.gate.clone();
    let factory = move |_lane: &Lane| {
        let gate = gate.clone();
        tower::service_fn(move |request: Request<Incoming>| {
            let gate = gate.clone();
            async move {
                let waits = request.uri().path() == "/waits";
                let mut body = request.into_body();
                if waits {
                    body.collect().await?;
                } else {
                    let rest = tokio::time::timeout(Duration::from_millis(1), body.frame()).await;
                    assert!(rest.is_err(), "nothing comes");
                    drop(body);
                    gate.acquire().await?.forget();
                }
                Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("done")))
            }
        })
    };
    let timeouts = Timeouts { body: BRIEF, ..Timeouts::default() };
    let server = Running::start(way.builder().timeouts(timeouts), factory);
    let mut dropped = server.connect();
    dropped.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n");
    server.wait_for_in_flight(1);
    // The deadline of this upload would expire no later than the other upload's deadline.
    let mut waits = begin_upload(&server, "/waits", 100);
    assert_eq!(waits.read_answer().status, 408);
    handlers.gate.add_permits(1);
    assert_eq!(dropped.read_answer().status, 200);
    assert_eq!(server.refused_requests("body_timeout"), 1.0);
}

#[rstest]
fn a_request_that_takes_too_long_is_answered_503_and_its_handler_dropped(
    #[values(Plain, Hyper)] way: Way,
) {
    let timeouts = Timeouts { request: BRIEF, ..Timeouts::default() };
    let (server, handlers) = start(way, Limits { slots: 1, ..Limits::default() }, timeouts);
    let mut client = server.connect();
    let answer = client.get("/gate");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("urn:corelane:problem:deadline-exceeded"), "{answer:?}");
    assert_eq!(handlers.alive(), 0, "the handler is dropped before the reply is sent");
    assert_eq!(server.refused_requests("request_timeout"), 1.0);
    assert_eq!(client.get("/hello").status, 200, "the connection and the slot are free");
    drop(client);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_request_that_waits_for_a_slot_too_long_is_answered_503(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { request: 2 * BRIEF, ..Timeouts::default() };
    let (server, handlers) = start(way, Limits { slots: 1, ..Limits::default() }, timeouts);
    let (mut running, mut waiting) = (server.connect(), server.connect());
    running.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    waiting.send_get("/gate");
    assert_eq!((running.read_answer().status, waiting.read_answer().status), (503, 503));
    assert_eq!(server.get("/hello").status, 200);
    drop((running, waiting));
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_request_too_many_is_answered_503_at_once(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = with_limits(way, Limits { slots: 1, queue: 0, ..Limits::default() });
    let mut running = server.connect();
    running.send_get("/gate");
    server.wait_for_in_flight(1);
    let answer = server.get("/hello");
    assert_eq!(answer.status, 503);
    let wait: u32 = answer.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=60).contains(&wait));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("urn:corelane:problem:overloaded"), "{answer:?}");
    assert_eq!(server.refused_requests("queue_full"), 1.0);
    assert_eq!(handlers.alive(), 1, "the handler was not called");
    handlers.gate.add_permits(1);
    assert_eq!(running.read_answer().status, 200);
    assert_eq!(server.get("/hello").status, 200);
    drop(running);
    wait_until_freed(&server, &handlers);
}
