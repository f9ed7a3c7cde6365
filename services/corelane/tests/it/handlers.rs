//! Handlers that block, hold values that are not `Send`, or read their deadline.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::support::{Alive, BoxError, PATIENCE, Running, builder};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use bytes::Bytes;
use corelane::{BlockingError, Drain, Drained, Incoming, Lane, Limits, Phase, Timeouts};
use http::{Request, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

#[derive(Clone)]
struct Gate {
    entered: Sender<()>,
    release: Arc<Mutex<Receiver<()>>>,
}

impl Gate {
    fn new() -> (Gate, Receiver<()>, Sender<()>) {
        let (entered, blocked) = channel();
        let (release, released) = channel();
        (Gate { entered, release: Arc::new(Mutex::new(released)) }, blocked, release)
    }

    fn pass(&self) {
        self.entered.send(()).expect("the test listens");
        let release = self.release.lock().expect("no panic");
        release.recv_timeout(PATIENCE).expect("the test releases");
    }
}

async fn block(State(gate): State<Gate>) -> Result<&'static str, (StatusCode, String)> {
    match corelane::blocking(move || gate.pass()).await {
        Ok(()) => Ok("through"),
        Err(BlockingError) => Err((StatusCode::SERVICE_UNAVAILABLE, BlockingError.to_string())),
    }
}

async fn panics() -> &'static str {
    let _ = corelane::blocking(|| panic!("a call that panics")).await;
    "not reached"
}

fn start(limits: Limits) -> (Running, Receiver<()>, Sender<()>) {
    let (gate, blocked, release) = Gate::new();
    let server = Running::start(builder().limits(limits), move |_lane: &Lane| {
        let router = Router::new().route("/block", get(block)).route("/panic", get(panics));
        router.route("/hello", get(async || "hello")).with_state(gate.clone())
    });
    (server, blocked, release)
}

#[test]
fn a_call_that_blocks_does_not_stop_its_lane() {
    let (server, blocked, release) = start(Limits::default());
    let mut client = server.connect();
    client.send_get("/block");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    assert_eq!(server.get("/hello").text(), "hello");
    release.send(()).expect("the call waits");
    assert_eq!(client.read_answer().text(), "through");
}

#[test]
fn a_full_pool_refuses() {
    let limits = Limits { blocking_threads: 1, blocking_queue: 1, ..Limits::default() };
    let (server, blocked, release) = start(limits);
    let (mut running, mut waiting) = (server.connect(), server.connect());
    running.send_get("/block");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    waiting.send_get("/block");
    server.wait_for_in_flight(2);
    let answer = server.get("/block");
    assert_eq!((answer.status, answer.text().as_str()), (503, "too many blocking calls"));
    assert_eq!(server.refused_requests("pool_full"), 1.0, "whatever the handler makes of it");
    (0..2).for_each(|_| release.send(()).expect("a call waits"));
    assert_eq!((running.read_answer().status, waiting.read_answer().status), (200, 200));
}

#[test]
fn a_service_that_returns_the_error_of_a_full_pool_is_answered_503() {
    let (gate, blocked, release) = Gate::new();
    let limits = Limits { blocking_threads: 1, blocking_queue: 0, ..Limits::default() };
    let server = Running::start(builder().limits(limits), move |_lane: &Lane| {
        let gate = gate.clone();
        tower::service_fn(move |_request: Request<Incoming>| {
            let call = corelane::blocking({
                let gate = gate.clone();
                move || gate.pass()
            });
            async move { call.await.map(|()| Response::new(Full::<Bytes>::from("through"))) }
        })
    });
    let mut running = server.connect();
    running.send_get("/");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    let answer = server.get("/");
    assert!(answer.status == 503 && answer.header("retry-after").is_some(), "{answer:?}");
    assert_eq!(server.refused_requests("pool_full"), 1.0);
    release.send(()).expect("the call waits");
    assert_eq!(running.read_answer().status, 200);
}

#[test]
fn a_call_whose_client_left_is_not_made() {
    let limits = Limits { blocking_threads: 1, ..Limits::default() };
    let (server, blocked, release) = start(limits);
    let (mut running, mut waiting) = (server.connect(), server.connect());
    running.send_get("/block");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    waiting.send_get("/block");
    server.wait_for_in_flight(2);
    drop(waiting);
    server.wait_for_in_flight(1);
    release.send(()).expect("the call waits");
    assert_eq!(running.read_answer().status, 200);
    // This call directly follows the first call, so the second call never ran.
    running.send_get("/block");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    release.send(()).expect("the call waits");
    assert_eq!(running.read_answer().status, 200);
    assert!(blocked.try_recv().is_err());
}

#[test]
fn a_drain_waits_for_a_call_whose_client_left() {
    let (gate, blocked, release) = Gate::new();
    let done = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&done);
    let server = Running::start(builder(), move |_lane: &Lane| {
        let (gate, ends) = (gate.clone(), Arc::clone(&ends));
        tower::service_fn(move |_request: Request<Incoming>| {
            let (gate, ends) = (gate.clone(), Arc::clone(&ends));
            async move {
                let call = corelane::blocking(move || {
                    gate.pass();
                    ends.store(true, Ordering::SeqCst);
                });
                call.await?;
                Ok::<_, BlockingError>(Response::new(Full::<Bytes>::from("done")))
            }
        })
    });
    let mut client = server.connect();
    client.send_get("/");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    drop(client);
    server.wait_for_connections(0);
    server.handle.drain();
    server.wait_for_phase(Phase::Closing);
    release.send(()).expect("the call waits");
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
    assert!(done.load(Ordering::SeqCst), "the call was not cut");
}

/// Stops a server whose only blocking thread is busy and has one more call queued. `leaving`
/// clients disconnect first. Returns the number of cut requests.
fn cut_calls(leaving: usize) -> u64 {
    let (gate, blocked, release) = Gate::new();
    let deadline = Duration::from_millis(200);
    let drain = Drain { settle: Duration::ZERO, deadline, ..Drain::default() };
    let limits = Limits { blocking_threads: 1, ..Limits::default() };
    let server = Running::start(builder().limits(limits).drain(drain), move |_lane: &Lane| {
        Router::new().route("/block", get(block)).with_state(gate.clone())
    });
    let mut clients = vec![server.connect(), server.connect()];
    clients[0].send_get("/block");
    blocked.recv_timeout(PATIENCE).expect("the call is made");
    clients[1].send_get("/block");
    server.wait_for_in_flight(2);
    clients.drain(..leaving);
    server.wait_for_connections(2 - leaving as u32);
    server.handle.drain();
    let drained = server.join().expect("an end");
    release.send(()).expect("the call waits still");
    drained.cut
}

#[test]
fn a_call_that_outlives_the_drain_counts_as_cut_though_its_client_left() {
    assert_eq!(cut_calls(2), 1, "the second call is not made");
    assert_eq!(cut_calls(1), 2, "the call of one, the request of the other");
}

#[test]
fn a_request_that_is_cut_with_its_call_counts_once() {
    assert_eq!(cut_calls(0), 2);
}

#[test]
fn code_that_would_block_the_lane_panics_alone() {
    async fn block_on() -> &'static str {
        tokio::runtime::Handle::current().block_on(async { "not reached" })
    }
    let server = Running::start(builder(), |_lane: &Lane| {
        Router::new().route("/on", get(block_on)).route("/", get(async || "hello"))
    });
    let mut client = server.connect();
    assert_eq!(client.get("/on").status, 500);
    assert_eq!(client.get("/").text(), "hello");
}

#[test]
fn a_panic_in_a_call_is_its_requests_alone() {
    let (server, _blocked, _release) = start(Limits::default());
    let mut client = server.connect();
    assert_eq!(client.get("/panic").status, 500);
    assert_eq!(client.get("/hello").status, 200);
}

#[test]
fn a_handler_may_hold_what_is_not_send() {
    let server = Running::start(builder(), |_lane: &Lane| {
        let served = Rc::new(Cell::new(0));
        tower::service_fn(move |_request: Request<Incoming>| {
            let served = Rc::clone(&served);
            async move {
                // Held across an await, so this future is not `Send`.
                tokio::task::yield_now().await;
                served.set(served.get() + 1);
                let text = served.get().to_string();
                Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from(text)))
            }
        })
    });
    assert_eq!(server.get("/").text(), "1");
    assert_eq!(server.get("/").text(), "2");
}

#[test]
fn a_handler_knows_its_deadline() {
    let request = Duration::from_secs(1000);
    let timeouts = Timeouts { request, ..Timeouts::default() };
    let before = Instant::now();
    let server = Running::start(builder().timeouts(timeouts), |_lane: &Lane| {
        Router::new().route(
            "/",
            get(async || {
                let first = corelane::deadline();
                tokio::task::yield_now().await;
                assert_eq!(first, corelane::deadline(), "the same in every part of it");
                let spawned = tokio::spawn(async { corelane::deadline() }).await;
                assert_eq!(spawned.ok(), Some(None), "a task of its own has none");
                let at = first.expect("a handler has one");
                (at - Instant::now()).as_secs_f64().to_string()
            }),
        )
    });
    let left: f64 = server.get("/").text().parse().expect("seconds");
    assert!(left <= 1000.0 && left >= 1000.0 - before.elapsed().as_secs_f64(), "{left}");
}

#[test]
fn a_handler_may_use_tokios_timers_sockets_and_tasks() {
    let server = Running::start(builder(), |_lane: &Lane| {
        tower::service_fn(|_request: Request<Incoming>| async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let sent = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                TcpStream::connect(address).await?.write_all(b"heard").await
            });
            let heard = spawn_local(async move {
                let mut text = String::new();
                listener.accept().await?.0.read_to_string(&mut text).await?;
                std::io::Result::Ok(Rc::new(text))
            });
            sent.await??;
            let text = heard.await??.to_string();
            Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(text)))
        })
    });
    assert_eq!(server.get("/").text(), "heard");
}

#[test]
fn a_drain_does_not_wait_for_tasks_that_a_handler_spawned() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let far = Drain { settle: Duration::ZERO, deadline: 100 * PATIENCE, ..Drain::default() };
    let server = Running::start(builder().drain(far), move |_lane: &Lane| {
        let count = Arc::clone(&count);
        tower::service_fn(move |_request: Request<Incoming>| {
            let task = Alive::new(&count);
            spawn_local(async move {
                let _task = task;
                std::future::pending::<()>().await;
            });
            std::future::ready(Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("done"))))
        })
    });
    assert_eq!(server.get("/").text(), "done");
    assert_eq!(alive.load(Ordering::SeqCst), 1, "it outlives its request");
    server.handle.drain();
    server.wait_until("ended", || server.has_ended());
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
    assert_eq!(alive.load(Ordering::SeqCst), 0, "it is dropped with its lane");
}

/// A future that is ready at its second poll and fails if it is polled again.
#[derive(Clone, Default)]
struct Hesitant {
    asked: bool,
    ended: Arc<AtomicBool>,
}

impl tower::Service<Request<Incoming>> for Hesitant {
    type Response = Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = std::future::Ready<std::io::Result<Response<Full<Bytes>>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.ended.load(Ordering::SeqCst) {
            return Poll::Ready(Err(std::io::ErrorKind::NotConnected.into()));
        }
        if self.asked {
            return Poll::Ready(Ok(()));
        }
        self.asked = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _request: Request<Incoming>) -> Self::Future {
        assert!(self.asked, "it was called before it was ready");
        std::future::ready(Ok(Response::new("ready".into())))
    }
}

#[test]
fn a_service_is_called_when_it_is_ready_and_answered_for_when_it_fails() {
    let service = Hesitant::default();
    let ended = Arc::clone(&service.ended);
    let server = Running::start(builder(), move |_lane: &Lane| service.clone());
    assert_eq!(server.get("/").text(), "ready");
    ended.store(true, Ordering::SeqCst);
    let answer = server.get("/");
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (500, Some("application/problem+json"))
    );
    ended.store(false, Ordering::SeqCst);
    assert_eq!(server.get("/").text(), "ready", "the lane lives on");
    server.wait_for_in_flight(0);
}
