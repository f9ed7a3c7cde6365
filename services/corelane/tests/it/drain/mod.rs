//! A drain loses no accepted request.

mod report;

use std::convert::Infallible;
use std::future::ready;
use std::io::Write;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::support::{
    BIG, DISTANT, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    big,
    worker::{get, http2, with_worker},
};
use bytes::Bytes;
use corelane::{Drain, Drained, Incoming, Limits, Phase, Timeouts};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use rstest::rstest;
use tokio::sync::Semaphore;

const CLEAN: Drained = Drained { cut: 0 };

/// A settling time that outlasts the test.
fn settling() -> Drain {
    Drain { settle: DISTANT, deadline: DISTANT, ..Drain::default() }
}

fn since_epoch() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("a clock that is set").as_secs_f64()
}

#[rstest]
fn while_settling_it_accepts_answers_and_tells_clients_to_go(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().drain(settling()), Handlers::new().factory());
    let mut kept = server.connect();
    assert!(!kept.get("/hello").closes());
    let started = || server.metric("corelane_drain_started_timestamp_seconds");
    assert_eq!(started(), 0.0);

    let before = since_epoch();
    server.handle.drain();
    server.wait_for_phase(Phase::Settling);
    assert!((before..=since_epoch()).contains(&started()), "{}", started());
    assert_eq!(server.admin_get("/readyz").status, 503);
    assert_eq!(server.admin_get("/healthz").status, 200, "a drain is not a failure");
    assert_eq!(server.metric("corelane_ready"), 0.0);
    assert_eq!(server.metric("corelane_phase{phase=\"settling\"}"), 1.0);

    let answer = kept.get("/hello");
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    assert!(kept.read_to_close().is_empty());
    let answer = server.get("/hello");
    assert!(answer.status == 200 && answer.closes(), "new connections are served: {answer:?}");
}

#[rstest]
fn an_idle_server_ends_at_once(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let mut idle = server.connect();
    assert_eq!(idle.get("/hello").status, 200);

    server.handle.drain();
    assert!(idle.read_to_close().is_empty(), "an idle connection is closed");
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn what_is_in_flight_is_finished(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let server = Running::start(way.builder(), handlers.factory());
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_for_in_flight(1);

    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    assert!(!server.has_ended());
    handlers.gate.add_permits(1);
    let answer = client.read_answer();
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn what_waits_for_a_slot_is_answered(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let limits = Limits { slots: 1, ..Limits::default() };
    let server = Running::start(way.builder().limits(limits), handlers.factory());
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send_get("/gate");
    }
    server.wait_for_in_flight(5);
    assert_eq!(handlers.alive(), 1, "the others wait");

    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    handlers.gate.add_permits(5);
    for client in &mut clients {
        let answer = client.read_answer();
        assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    }
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

/// The service responds before it reads the body, and the next request follows that body.
#[rstest]
fn a_request_behind_a_body_that_is_read_late_is_answered(#[values(Plain, Hyper)] way: Way) {
    let gate = Arc::new(Semaphore::new(0));
    let wanted = Arc::clone(&gate);
    let server = Running::start(way.builder(), move |_lane| {
        let gate = Arc::clone(&wanted);
        tower::service_fn(move |request: Request<Incoming>| {
            let wanted = Arc::clone(&gate).acquire_owned();
            if request.method() == Method::POST {
                tokio::task::spawn_local(async move {
                    let _wanted = wanted.await;
                    request.into_body().collect().await
                });
            }
            ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("pong"))))
        })
    });
    let (mut client, mut idle) = (server.connect(), server.connect());
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\na");
    assert!(!client.read_answer().closes());
    client.send("bGET / HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(idle.get("/").status, 200);

    server.handle.drain();
    // The sweep visits the older connection first.
    assert!(idle.read_to_close().is_empty());
    gate.add_permits(1);
    let answer = client.read_answer();
    assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    assert!(client.read_to_close().is_empty());
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn connections_in_the_accept_queue_are_answered(#[values(Plain, Hyper)] way: Way) {
    // While the lane is blocked, later connections stay in the accept queue.
    let (entered, lane_is_blocked) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let server = Running::start(way.builder(), move |_lane| {
        let (entered, released) = (entered.clone(), Arc::clone(&released));
        tower::service_fn(move |request: Request<Incoming>| {
            if request.uri().path() == "/block" {
                entered.send(()).expect("the test listens");
                let _ = released.lock().expect("not poisoned").recv_timeout(PATIENCE);
            }
            let reply = Response::new(Full::<Bytes>::from("hello"));
            async move { Ok::<_, std::convert::Infallible>(reply) }
        })
    });
    let mut first = server.connect();
    first.send_get("/block");
    lane_is_blocked.recv_timeout(PATIENCE).expect("the lane is blocked");
    let mut queued: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for client in &mut queued {
        client.send_get("/hello");
    }

    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    release.send(()).expect("the lane waits");
    assert_eq!(first.read_answer().status, 200);
    for client in &mut queued {
        let answer = client.read_answer();
        assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    }
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn a_client_that_reads_slowly_gets_its_whole_reply(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { header: Duration::from_millis(500), ..Timeouts::default() };
    let server = Running::start(way.builder().timeouts(timeouts), big);
    let mut client = server.connect();
    client.send_get("/");
    let (begun, _) = client.read_slowly(1 << 20);
    server.handle.drain();
    assert!(begun + client.read_slowly(BIG - begun).0 >= BIG);
    drop(client);
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}

#[rstest]
fn the_deadline_cuts_what_hangs(#[values(Plain, Hyper)] way: Way) {
    let deadline = Duration::from_secs(1);
    let drain = Drain { settle: Duration::ZERO, deadline, ..Drain::default() };
    let handlers = Handlers::new();
    let server = Running::start(way.builder().drain(drain), handlers.factory());
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_for_in_flight(1);
    let begun = Instant::now();
    server.handle.drain();
    // The gate stays closed, so only the deadline can end the drain.
    assert!(client.read_to_close().is_empty());
    assert!(begun.elapsed() >= deadline, "cut after {:?}", begun.elapsed());
    assert_eq!(server.join().expect("an end"), Drained { cut: 1 });
    assert_eq!(handlers.alive(), 0, "the handler was dropped");
}

#[rstest]
fn a_second_request_to_stop_ends_it_at_once(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().drain(settling()), Handlers::new().factory());
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_for_in_flight(1);
    server.handle.drain();
    server.handle.stop();
    assert_eq!(server.join().expect("an end"), Drained { cut: 1 });
}

#[rstest]
fn a_lane_that_is_stuck_cannot_keep_the_process(#[values(Plain, Hyper)] way: Way) {
    let (entered, lane_is_blocked) = mpsc::channel();
    let server = Running::start(way.builder(), move |_lane| {
        let entered = entered.clone();
        tower::service_fn(move |_request: Request<Incoming>| {
            entered.send(()).expect("the test listens");
            std::thread::sleep(DISTANT);
            async { Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default())) }
        })
    });
    let mut client = server.connect();
    client.socket.write_all(b"GET / HTTP/1.1\r\nHost: t\r\n\r\n").expect("write");
    lane_is_blocked.recv_timeout(PATIENCE).expect("the lane is blocked");
    server.handle.drain();
    server.handle.stop();
    assert_eq!(server.join().expect("an end"), Drained { cut: 1 });
}

#[rstest]
fn http2_clients_get_goaway_and_their_replies(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let server = Running::start(way.builder().drain(settling()), handlers.factory());
    with_worker(async {
        let (mut client, connection) = http2(&server).await;
        let (reply, _) = client.send_request(get("/gate"), true).expect("sent");
        server.wait_for_in_flight(1);

        server.handle.drain();
        // After GOAWAY, the server accepts no new streams but finishes the open stream.
        let refused = async {
            while let Ok(ready) = client.clone().ready().await {
                client = ready;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("GOAWAY ends new streams");
        handlers.gate.add_permits(1);
        let reply = tokio::time::timeout(PATIENCE, reply).await.expect("in time");
        assert_eq!(reply.expect("a reply").status(), 200);
        drop(client);
        let ended = tokio::time::timeout(PATIENCE, connection).await.expect("in time");
        ended.expect("no panic").expect("a graceful end");
    });
}

#[rstest]
fn an_idle_http2_client_does_not_hold_the_drain(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    with_worker(async {
        let (mut client, connection) = http2(&server).await;
        let (reply, _) = client.send_request(get("/hello"), true).expect("sent");
        let mut body = reply.await.expect("a reply").into_body();
        while body.data().await.is_some() {}
        server.handle.drain();
        let ended = tokio::time::timeout(PATIENCE, connection).await.expect("in time");
        ended.expect("no panic").expect("a graceful end");
    });
    assert_eq!(server.join().expect("a clean end"), CLEAN);
}
