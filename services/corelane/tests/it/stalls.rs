//! Stalled lanes, and how the watchdog and the admin port report them.

use std::convert::Infallible;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::support::log::Log;
use crate::support::process::run_alone;
use crate::support::{Reply, Running, TestService, builder};
use bytes::Bytes;
use corelane::{Incoming, Lane, Lanes, Timeouts};
use futures_util::stream;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use serde_json::Value;
use tower::util::BoxCloneSyncService;

/// Longer than the usual scheduling delays.
const STALL: Duration = Duration::from_millis(250);

/// Requests block their lane until released, except `/waits`, which waits without blocking, and
/// `/hello`.
struct Blocker {
    release: SyncSender<()>,
    held: Arc<Mutex<Receiver<()>>>,
}

impl Blocker {
    fn new() -> Blocker {
        let (release, held) = mpsc::sync_channel(16);
        Blocker { release, held: Arc::new(Mutex::new(held)) }
    }

    fn factory(&self) -> impl Fn(&Lane) -> TestService + Send + Sync + 'static {
        let held = Arc::clone(&self.held);
        move |_lane| {
            let held = Arc::clone(&held);
            BoxCloneSyncService::new(tower::service_fn(move |request: Request<Incoming>| {
                let held = Arc::clone(&held);
                async move {
                    if request.uri().path() == "/waits" {
                        std::future::pending::<()>().await;
                    }
                    if request.uri().path().starts_with("/learnt/") {
                        corelane::set_route("/learnt/{n}");
                    }
                    Self::answer(&request, &held)
                }
            }))
        }
    }

    fn answer(request: &Request<Incoming>, held: &Mutex<Receiver<()>>) -> Reply {
        if request.uri().path() != "/hello" {
            // Receiving fails at the end of the test, which also releases the lane.
            let _ = held.lock().expect("no holder panics").recv();
        }
        Ok(Response::new(Full::new(Bytes::from_static(b"done"))))
    }

    fn let_one_go(&self) {
        self.release.send(()).expect("the service lives");
    }
}

/// A server with [`STALL`] as its limit.
fn start(blocker: &Blocker, lanes: usize, route: &str) -> Running {
    let timeouts = Timeouts { stall: STALL, ..Timeouts::default() };
    let builder = builder().lanes(Lanes::Count(lanes)).timeouts(timeouts);
    Running::start(builder.routes([route, "/waits", "/hello"]), blocker.factory())
}

fn lanes_view(server: &Running) -> Value {
    let answer = server.admin_get("/lanes");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    serde_json::from_slice(&answer.body).expect("JSON")
}

#[test]
fn a_handler_that_holds_its_lane_is_named() {
    let log = Log::open();
    let blocker = Blocker::new();
    let server = start(&blocker, 1, "/stalled/{n}");
    let stalls = "corelane_stalls_total{lane=\"0\",route=\"/stalled/{n}\"}";
    assert_eq!(server.metric(stalls), 0.0);
    let mut client = server.connect();
    client.send_get("/stalled/7");
    server.wait_until("stalled", || server.metric(stalls) == 1.0);
    assert_eq!(server.metric("corelane_lane_stalled{lane=\"0\"}"), 1.0);
    let view = lanes_view(&server);
    let lane = &view["lanes"][0];
    assert_eq!(lane["stalled"], true);
    assert_eq!(lane["polling"]["route"], "/stalled/{n}");
    assert_eq!(lane["polling"]["method"], "GET");
    assert!(lane["polling"]["for_ms"].as_f64().is_some_and(|ms| ms > 250.0), "{lane}");
    server.wait_until("busy for the whole window", || {
        lanes_view(&server)["lanes"][0]["busy"].as_f64().is_some_and(|busy| busy > 0.95)
    });

    blocker.let_one_go();
    assert_eq!(client.read_answer().status, 200);
    server.wait_until("over", || server.metric("corelane_lane_stalled{lane=\"0\"}") == 0.0);
    assert_eq!(server.metric(stalls), 1.0, "one stall, however long");
    assert_eq!(lanes_view(&server)["lanes"][0]["polling"], Value::Null);
    assert_eq!(client.get("/hello").status, 200);
    // The admin thread logs and counts the stall at the same time.
    let lines = log.lines_so_far(&["/stalled/{n}"]);
    let [began, over] = lines.as_slice() else { panic!("two lines: {lines:?}") };
    assert!(began.contains("WARN") && began.contains("a lane is stalled"), "{began}");
    assert!(began.contains("lane=0") && began.contains("method=\"GET\""), "{began}");
    assert!(began.contains("lasted="), "{began}");
    assert!(over.contains("the stall of a lane is over") && over.contains("lasted="), "{over}");
}

#[test]
fn the_first_request_of_a_route_that_holds_its_lane_is_named() {
    let log = Log::open();
    let blocker = Blocker::new();
    let server = start(&blocker, 1, "/given");
    let mut client = server.connect();
    client.send_get("/learnt/7");
    let stalls = |route| format!("corelane_stalls_total{{lane=\"0\",route=\"{route}\"}}");
    server.wait_until("stalled", || server.metric("corelane_lane_stalled{lane=\"0\"}") == 1.0);
    assert_eq!(server.metric(&stalls("/learnt/{n}")), 1.0);
    assert_eq!(server.metric(&stalls("other")), 0.0);
    assert_eq!(lanes_view(&server)["lanes"][0]["polling"]["route"], "/learnt/{n}");
    blocker.let_one_go();
    assert_eq!(client.read_answer().status, 200);
    server.wait_until("over", || server.metric("corelane_lane_stalled{lane=\"0\"}") == 0.0);
    let lines = log.lines_so_far(&["/learnt/{n}"]);
    let [began, over] = lines.as_slice() else { panic!("two lines: {lines:?}") };
    assert!(began.contains("a lane is stalled"), "{began}");
    assert!(over.contains("the stall of a lane is over"), "{over}");
}

#[test]
fn a_handler_that_waits_does_not_stall_its_lane() {
    let log = Log::open();
    let blocker = Blocker::new();
    let server = start(&blocker, 1, "/held-beside/{n}");
    let mut waiting = server.connect();
    waiting.send_get("/waits");
    server.wait_for_in_flight(1);
    // The watchdog reports this stall later than it would have reported the other stall.
    let mut holding = server.connect();
    holding.send_get("/held-beside/1");
    let stalls = |route| format!("corelane_stalls_total{{lane=\"0\",route=\"{route}\"}}");
    server.wait_until("stalled", || server.metric(&stalls("/held-beside/{n}")) == 1.0);
    assert_eq!(server.metric(&stalls("/waits")), 0.0);
    assert_eq!(log.lines_so_far(&["route=\"/waits\""]), Vec::<String>::new());
    blocker.let_one_go();
    assert_eq!(holding.read_answer().status, 200);
}

#[test]
fn an_event_loop_that_does_not_turn_is_a_stall_of_no_route() {
    // Other servers could log such stalls when their lanes lose CPU.
    run_alone("logs_a_stall_of_no_route", 1);
}

#[test]
#[ignore = "needs a log of its own: run by an_event_loop_that_does_not_turn_is_a_stall_of_no_route"]
fn logs_a_stall_of_no_route() {
    let log = Log::open();
    let (release, held) = mpsc::sync_channel(1);
    let held = Arc::new(Mutex::new(held));
    let timeouts = Timeouts { stall: STALL, ..Timeouts::default() };
    let server = Running::start(builder().timeouts(timeouts).routes(["/body"]), move |_lane| {
        let held = Arc::clone(&held);
        tower::service_fn(move |_request: Request<Incoming>| {
            let held = Arc::clone(&held);
            // Polling the body blocks the lane.
            let parts = stream::poll_fn(move |_| {
                let _ = held.lock().expect("no holder panics").recv();
                Poll::Ready(None::<Result<Frame<Bytes>, Infallible>>)
            });
            async move { Ok::<_, Infallible>(Response::new(StreamBody::new(parts))) }
        })
    });
    let mut client = server.connect();
    client.send_get("/body");
    let stalls = |route| format!("corelane_stalls_total{{lane=\"0\",route=\"{route}\"}}");
    server.wait_until("stalled", || server.metric(&stalls("none")) == 1.0);
    assert_eq!(server.metric(&stalls("/body")), 0.0, "its handler has long returned");
    release.send(()).expect("the service lives");
    server.wait_until("over", || server.metric("corelane_lane_stalled{lane=\"0\"}") == 0.0);
    assert_eq!(server.metric(&stalls("none")), 1.0, "one stall, however long");
    // The admin thread logs and counts the stall at the same time.
    let lines = log.lines_so_far(&["route=\"none\""]);
    let [began, over] = lines.as_slice() else { panic!("two lines: {lines:?}") };
    assert!(began.contains("a lane is stalled"), "{began}");
    assert!(over.contains("the stall of a lane is over"), "{over}");
}

#[test]
fn the_stall_time_out_has_bounds() {
    for stall in [Duration::from_millis(9), Duration::from_secs(3601)] {
        let timeouts = Timeouts { stall, ..Timeouts::default() };
        let error = builder().timeouts(timeouts).build().expect_err("out of bounds");
        assert!(error.to_string().contains("timeouts.stall"), "{error}");
    }
}

#[test]
fn the_admin_port_answers_while_every_lane_is_held() {
    let blocker = Blocker::new();
    let server = start(&blocker, 2, "/all/{n}");
    let polling = |view: &Value| {
        let lanes = view["lanes"].as_array().expect("lanes");
        lanes.iter().filter(|lane| lane["stalled"] == true && !lane["polling"].is_null()).count()
    };
    // The kernel's hash picks the lane, so two connections may not be enough.
    let mut clients = Vec::new();
    server.wait_until("stalled on both lanes", || {
        if clients.len() < 32 {
            let mut client = server.connect();
            client.send_get("/all/1");
            clients.push(client);
        }
        polling(&lanes_view(&server)) == 2
    });
    assert_eq!(server.admin_get("/healthz").status, 200);
    assert_eq!(server.admin_get("/readyz").status, 200);
    for lane in ["0", "1"] {
        let series = format!("corelane_stalls_total{{lane=\"{lane}\",route=\"/all/{{n}}\"}}");
        assert_eq!(server.metric(&series), 1.0);
    }
    let page = server.admin_get("/lanes.html");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("GET /all/{n} for "), "{}", page.text());

    for _ in &clients {
        blocker.let_one_go();
    }
    for client in &mut clients {
        assert_eq!(client.read_answer().status, 200);
    }
    server.wait_until("free", || polling(&lanes_view(&server)) == 0);
}

/// Far more parked connections than one turn wakes.
const PARKED: usize = 640;

/// Requests reach parked connections while the lane is blocked past their idle timeout. False if
/// the machine was too busy for the test.
fn what_is_parked_is_heard() -> bool {
    let second = Duration::from_secs(1);
    let blocker = Blocker::new();
    // Sweeps run every 500 ms, and blocked time counts as at most two of these intervals.
    let timeouts = Timeouts { idle: 3 * second, ..Timeouts::default() };
    let builder = builder().timeouts(timeouts).park_after(Some(2 * second)).routes(["/held"]);
    let server = Running::start(builder, blocker.factory());
    let mut clients: Vec<_> = (0..PARKED).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_get("/hello"));
    clients.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
    let parked = || server.metric("corelane_connection_parkings_total{lane=\"0\"}") as usize;
    server.wait_until("parked", || parked() == PARKED);
    let mut holder = server.connect();
    holder.send_get("/held");
    server.wait_for_in_flight(1);
    if server.refused("idle_timeout") > 0.0 {
        blocker.let_one_go();
        return false;
    }
    let held = Instant::now();
    clients.iter_mut().for_each(|client| client.send_get("/hello"));
    server.wait_until("late", || held.elapsed() > 5 * second / 4);
    blocker.let_one_go();
    clients.iter_mut().for_each(|client| assert_eq!(client.read_answer().status, 200));
    true
}

#[test]
fn what_parked_connections_asked_meanwhile_is_heard_before_they_end() {
    assert!((0..10).any(|_| what_is_parked_is_heard()), "they always end before");
}
