//! Log lines of a slow drain.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use corelane::{Builder, Drain, Incoming, Limits};
use futures_util::stream;
use http::{Request, Response};
use http_body_util::Full;

use crate::support::log::Log;
use crate::support::{
    BIG, DISTANT, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
};
use rstest::rstest;

/// Exclusive access to the log, because tests with and without the plain path log the same lines,
/// on their own routes.
struct Lines {
    log: Log,
    _turn: MutexGuard<'static, ()>,
}

impl Lines {
    fn keep() -> Lines {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Lines { log: Log::open(), _turn: turn }
    }

    /// Waits for a report that contains all of `parts`, including a route.
    fn wait_for_report(&self, parts: &[&str]) -> String {
        self.log.wait_for(&[&["drain: still waiting"], parts].concat())
    }
}

/// Reports often, to keep tests short.
fn reporting(way: Way) -> Builder {
    let report = Duration::from_millis(100);
    way.builder().drain(Drain { settle: Duration::ZERO, deadline: DISTANT, report })
}

#[rstest]
fn each_lane_names_its_oldest_requests_by_route(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let handlers = Handlers::new();
    let settings = reporting(way).routes(["/{oldest}"]);
    let settings = settings.limits(Limits { slots: 2, ..Limits::default() });
    let server = Running::start(settings, handlers.factory());
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients[..2] {
        client.send_get("/gate");
    }
    server.wait_for_in_flight(2);
    clients[2].send("POST /gate HTTP/1.1\r\nHost: t\r\n\r\n");
    server.wait_for_in_flight(3);
    let mut unfinished = server.connect();
    unfinished.send("GET /");
    server.wait_for_connections(4);
    server.handle.drain();

    let line = log.wait_for_report(&[
        "lane=0",
        "connections=4",
        "in_flight=3",
        "queued=1",
        "unfinished_headers=1",
        "unread_replies=0",
        "GET /{oldest} ",
    ]);
    let at = |part| line.find(part).unwrap_or_else(|| panic!("no {part} in {line}"));
    assert!(at("GET /{oldest} ") < at("POST /{oldest} "), "the oldest first: {line}");

    handlers.gate.add_permits(3);
    for client in &mut clients {
        assert_eq!(client.read_answer().status, 200);
    }
    drop(unfinished);
    assert_eq!(server.join().expect("a clean end").cut, 0);
}

#[rstest]
fn a_client_that_does_not_read_is_reported(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let server = Running::start(reporting(way).routes(["/{unread}"]), Handlers::new().factory());
    let mut client = server.connect();
    client.send_get("/big");
    client.socket.peek(&mut [0]).expect("a reply has begun");
    server.handle.drain();
    log.wait_for_report(&["unread_replies=1", "GET /{unread} "]);
}

/// Responds late, or as slowly as the client reads.
async fn go_on(mut request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let switches = request.uri().path() == "/ws";
    let upgrade = hyper::upgrade::on(&mut request);
    if switches {
        tokio::spawn(async move {
            let _open = upgrade.await;
            std::future::pending::<()>().await;
        });
    }
    let body = match request.uri().path() {
        "/events" => Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()),
        "/big" => Body::from(vec![b'x'; BIG]),
        _ => Body::empty(),
    };
    let reply = Response::builder().status(if switches { 101 } else { 200 });
    Ok(reply.body(body).expect("a reply"))
}

#[rstest]
fn replies_and_upgrades_that_go_on_are_named_by_route(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let routes = ["/events", "/big", "/ws"];
    let server = Running::start(reporting(way).routes(routes), |_| tower::service_fn(go_on));
    let (mut events, mut big, mut upgraded) =
        (server.connect(), server.connect(), server.connect());
    events.send_get("/events");
    events.read_until(b"\r\n\r\n");
    big.send_get("/big");
    big.socket.peek(&mut [0]).expect("a reply has begun");
    upgraded.send("GET /ws HTTP/1.1\r\nHost: t\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(upgraded.read_answer().status, 101);
    server.handle.drain();
    let line = log.wait_for_report(&["in_flight=1", "upgraded=1", "unread_replies=1", "GET /ws "]);
    let said = line.split("oldest=").nth(1).expect("the oldest");
    let why = |route: &str| {
        let entry = said.split(", ").find(|entry| entry.contains(route)).expect(route);
        entry.trim_end_matches('"').rsplit(' ').next().expect("a word").to_owned()
    };
    assert_eq!(routes.map(why), ["streaming", "unread", "upgraded"], "{line}");
}

#[rstest]
fn a_handler_that_holds_its_lane_is_reported_by_the_other_thread(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let (entered, lane_is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let server = Running::start(reporting(way).routes(["/held-in-a-drain/{n}"]), move |_lane| {
        let (entered, released) = (entered.clone(), Arc::clone(&released));
        tower::service_fn(move |_request: Request<Incoming>| {
            let (entered, released) = (entered.clone(), Arc::clone(&released));
            async move {
                entered.send(()).expect("the test listens");
                let _ = released.lock().expect("not poisoned").recv_timeout(PATIENCE);
                Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
            }
        })
    });
    let mut client = server.connect();
    client.send_get("/held-in-a-drain/1");
    lane_is_held.recv_timeout(PATIENCE).expect("the lane is held");
    server.handle.drain();
    let parts = ["drain: a handler holds its lane", "lane=0", "method=\"GET\""];
    let line = log.log.wait_for(&[&parts[..], &["/held-in-a-drain/{n}"]].concat());
    assert!(line.contains("WARN") && line.contains("connections=1"), "{line}");
    release.send(()).expect("the lane waits");
    assert_eq!(client.read_answer().status, 200);
    assert_eq!(server.join().expect("a clean end").cut, 0);
}
