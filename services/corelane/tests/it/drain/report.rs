//! What the log says of a drain that has to wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use corelane::{Builder, Drain, Incoming, Limits};
use http::{Request, Response};
use http_body_util::Full;

use crate::support::log::Log;
use crate::support::{
    DISTANT, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
};
use rstest::rstest;

/// The log, for one test at a time: those of both ways cause the same lines.
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

    /// Waits for a line with all of `parts`.
    fn wait_for(&self, server: &Running, parts: &[&str]) -> String {
        let mut found = None;
        server.wait_until("logged", || {
            found = self.log.lines(parts).into_iter().next();
            found.is_some()
        });
        found.expect("a line")
    }
}

/// Reports so often that a test need not wait.
fn reporting(way: Way) -> Builder {
    let report = Duration::from_millis(100);
    way.builder().drain(Drain { settle: Duration::ZERO, deadline: DISTANT, report })
}

#[rstest]
fn each_lane_names_its_oldest_requests_by_route(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let handlers = Handlers::new();
    let settings = reporting(way).routes(["/gate", "/big"]);
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

    let line = log.wait_for(&server, &["drain: still waiting", "GET /gate "]);
    for part in [
        "lane=0",
        "connections=4",
        "in_flight=3",
        "queued=1",
        "unfinished_headers=1",
        "unread_replies=0",
    ] {
        assert!(line.contains(part), "no {part} in {line}");
    }
    let at = |part| line.find(part).unwrap_or_else(|| panic!("no {part} in {line}"));
    assert!(at("GET /gate ") < at("POST /gate "), "the oldest first: {line}");

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
    let server = Running::start(reporting(way), Handlers::new().factory());
    let mut client = server.connect();
    client.send_get("/big");
    client.socket.peek(&mut [0]).expect("a reply has begun");
    server.handle.drain();
    log.wait_for(&server, &["drain: still waiting", "unread_replies=1"]);
}

#[rstest]
fn a_handler_that_holds_its_lane_is_reported_by_the_other_thread(#[values(Plain, Hyper)] way: Way) {
    let log = Lines::keep();
    let (entered, lane_is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let server = Running::start(reporting(way).routes(["/held/{n}"]), move |_lane| {
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
    client.send_get("/held/1");
    lane_is_held.recv_timeout(PATIENCE).expect("the lane is held");
    server.handle.drain();
    let parts = ["drain: a handler holds its lane", "lane=0", "method=\"GET\"", "/held/{n}"];
    let line = log.wait_for(&server, &parts);
    assert!(line.contains("WARN") && line.contains("connections=1"), "{line}");
    release.send(()).expect("the lane waits");
    assert_eq!(client.read_answer().status, 200);
    assert_eq!(server.join().expect("a clean end").cut, 0);
}
