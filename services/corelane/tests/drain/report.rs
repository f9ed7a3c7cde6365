//! What the log says of a drain that has to wait.

use std::io::Write;
use std::sync::{Arc, Mutex, Once, mpsc};
use std::time::Duration;

use bytes::Bytes;
use corelane::{Builder, Drain, Incoming, Limits};
use http::{Request, Response};
use http_body_util::Full;
use tracing_subscriber::fmt::MakeWriter;

use super::support::{DISTANT, Handlers, PATIENCE, Running, builder};

/// The log of this process. Its tests run at the same time: each looks for its own route.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        Log
    }
}

fn keep_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).init());
}

/// Waits for a line of the log with all of `parts`.
fn wait_for_line(server: &Running, parts: &[&str]) -> String {
    let mut found = None;
    server.wait_until("logged", || {
        let log = String::from_utf8(LOG.lock().expect("not poisoned").clone()).expect("text");
        let mut lines = log.lines();
        found = lines.find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned);
        found.is_some()
    });
    found.expect("a line")
}

/// Reports so often that a test need not wait.
fn reporting() -> Builder {
    let report = Duration::from_millis(100);
    builder().drain(Drain { settle: Duration::ZERO, deadline: DISTANT, report })
}

#[test]
fn each_lane_names_its_oldest_requests_by_route() {
    keep_log();
    let handlers = Handlers::new();
    let settings = reporting().routes(["/gate", "/big"]);
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

    let line = wait_for_line(&server, &["drain: still waiting", "GET /gate "]);
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

#[test]
fn a_client_that_does_not_read_is_reported() {
    keep_log();
    let server = Running::start(reporting(), Handlers::new().factory());
    let mut client = server.connect();
    client.send_get("/big");
    client.socket.peek(&mut [0]).expect("a reply has begun");
    server.handle.drain();
    wait_for_line(&server, &["drain: still waiting", "unread_replies=1"]);
}

#[test]
fn a_handler_that_holds_its_lane_is_reported_by_the_other_thread() {
    keep_log();
    let (entered, lane_is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let server = Running::start(reporting().routes(["/held/{n}"]), move |_lane| {
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
    let line = wait_for_line(&server, &parts);
    assert!(line.contains("WARN") && line.contains("connections=1"), "{line}");
    release.send(()).expect("the lane waits");
    assert_eq!(client.read_answer().status, 200);
    assert_eq!(server.join().expect("a clean end").cut, 0);
}
