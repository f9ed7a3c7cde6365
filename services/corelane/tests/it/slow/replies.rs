//! Slow lanes are indistinguishable from lanes for clients and handlers.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use corelane::{Builder, Cost, Drained, Incoming, Lane, Limits, Timeouts, Traces};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use rstest::rstest;
use tokio::sync::Semaphore;
use tower::util::BoxCloneSyncService;

use super::Holding;
use crate::support::worker::{get, http2, with_worker};
use crate::support::{
    Alive, BoxError, Running, Way,
    Way::{Hyper, Plain},
};

type EveryService = BoxCloneSyncService<Request<Incoming>, Response<Body>, BoxError>;

/// All kinds of responses, all on expensive routes.
#[derive(Clone)]
struct Every {
    gate: Arc<Semaphore>,
    alive: Arc<AtomicUsize>,
}

const ROUTES: [&str; 10] = [
    "/gate",
    "/echo",
    "/parts",
    "/panic",
    "/error",
    "/who",
    "/head",
    "/broken",
    "/call",
    "/trailers",
];

fn settings(way: Way) -> Builder {
    let builder = way
        .builder()
        .slow_lanes(Some(super::ON))
        .routes(ROUTES)
        .request_ids(true)
        .traces(Traces::PassOn);
    ROUTES.into_iter().fold(builder, |builder, route| builder.cost(route, Cost::Expensive))
}

fn whole(text: impl Into<Body>) -> Result<Response<Body>, BoxError> {
    Ok(Response::new(text.into()))
}

impl Every {
    fn new() -> Self {
        Every { gate: Arc::new(Semaphore::new(0)), alive: Arc::default() }
    }

    fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn factory(&self) -> impl Fn(&Lane) -> EveryService + Send + Sync + 'static + use<> {
        let every = self.clone();
        move |lane| {
            let (every, is_slow) = (every.clone(), lane.is_slow());
            BoxCloneSyncService::new(tower::service_fn(move |request: Request<Incoming>| {
                let every = every.clone();
                async move {
                    let mut reply = every.answer(request).await?;
                    reply.headers_mut().insert("x-slow", HeaderValue::from(u16::from(is_slow)));
                    Ok::<_, BoxError>(reply)
                }
            }))
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, BoxError> {
        let alive = Alive::new(&self.alive);
        match request.uri().path() {
            "/gate" => {
                self.gate.acquire().await?.forget();
                whole("through")
            }
            "/echo" => whole(request.into_body().collect().await?.to_bytes()),
            // An endless body that sends one part per permit.
            "/parts" => {
                let parts = stream::unfold((self.gate, alive), async |(gate, alive)| {
                    gate.acquire().await.expect("open").forget();
                    Some((Ok::<_, Infallible>("part\n"), (gate, alive)))
                });
                whole(Body::from_stream(parts))
            }
            "/broken" => {
                let parts = [Ok("part\n"), Err(std::io::Error::other("broken"))];
                whole(Body::from_stream(stream::iter(parts).then(async |part| {
                    tokio::task::yield_now().await;
                    part
                })))
            }
            "/panic" => panic!("a handler that panics"),
            "/error" => Err("a secret of the server".into()),
            "/call" => whole(
                corelane::blocking(|| format!("{:?}", corelane::request_id().is_some())).await?,
            ),
            "/trailers" => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                let frames = [Frame::data(Bytes::from("data")), Frame::trailers(trailers)];
                let frames = stream::iter(frames.map(Ok::<_, Infallible>));
                whole(Body::new(StreamBody::new(frames)))
            }
            "/named/7" => {
                corelane::set_route("/named/{n}");
                super::burn(3000);
                whole("named")
            }
            "/who" => {
                let connection = corelane::connection().expect("a connection");
                let trace = corelane::trace_context().map(|trace| trace.traceparent());
                whole(format!(
                    "{:?} {:?} {:?} {:?} {:?}",
                    connection.peer,
                    corelane::client_addr(request.headers()),
                    corelane::request_id().map(|id| id.to_string()),
                    trace,
                    corelane::deadline().is_some()
                ))
            }
            _ => whole("hello"),
        }
    }
}

#[rstest]
fn handlers_see_their_request(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(settings(way), Every::new().factory());
    let mut client = server.connect();
    let peer = client.socket.local_addr().expect("an address");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.send(format!(
        "GET /who HTTP/1.1\r\nHost: t\r\nx-request-id: id-7\r\ntraceparent: {trace}\r\n\r\n"
    ));
    let answer = client.read_answer();
    assert_eq!(answer.header("x-slow"), Some("1"));
    assert_eq!(answer.header("x-request-id"), Some("id-7"));
    let text = answer.text();
    for part in [
        &format!("Some({peer})"),
        "Some(127.0.0.1)",
        "id-7",
        "0af7651916cd43dd8448eb211c80319c",
        "true",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert_eq!(client.get("/call").text(), "true", "also in blocking calls");
}

#[rstest]
fn a_route_that_the_handler_names_is_learnt(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(settings(way), Every::new().factory());
    let mut client = server.connect();
    let on = |answer: crate::support::Answer| answer.header("x-slow").map(str::to_owned);
    assert_eq!(on(client.get("/named/7")).as_deref(), Some("0"));
    assert_eq!(on(client.get("/named/7")).as_deref(), Some("1"));
    let series =
        "corelane_requests_total{lane=\"0\",route=\"/named/{n}\",method=\"GET\",code=\"200\"}";
    server.wait_until("counted", || {
        server.admin_get("/metrics").text().contains("route=\"/named/{n}\"")
    });
    assert_eq!(server.metric(series), 2.0);
}

#[rstest]
fn bodies_go_both_ways(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(settings(way), Every::new().factory());
    let mut client = server.connect();
    for size in [0, 5, 4000, 70_000, 3 << 20] {
        let body = vec![b'x'; size];
        client.send(format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n\r\n"));
        client.send(&body);
        let answer = client.read_answer();
        assert!(answer.status == 200 && answer.body == body, "{size}: {}", answer.head);
        assert_eq!(answer.header("x-slow"), Some("1"));
    }
    client.send("HEAD /echo HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(client.read_head_answer().status, 200);
    assert_eq!(client.get("/echo").status, 200);
}

#[rstest]
fn a_reply_is_streamed_until_its_client_leaves(#[values(Plain, Hyper)] way: Way) {
    let every = Every::new();
    let server = Running::start(settings(way), every.factory());
    let mut client = server.connect();
    client.send_get("/parts");
    assert!(client.read_until(b"\r\n\r\n").contains("chunked"));
    for _ in 0..10 {
        every.gate.add_permits(1);
        client.read_until(b"part\n");
    }
    assert_eq!(every.alive(), 1);
    drop(client);
    server.wait_until("dropped", || {
        every.gate.add_permits(1);
        every.alive() == 0
    });
    let mut broken = server.connect();
    broken.send_get("/broken");
    let text = String::from_utf8(broken.read_to_close()).expect("text");
    assert!(!text.ends_with("0\r\n\r\n"), "{text}");
}

#[rstest]
fn panics_and_errors_are_answered_500(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(settings(way), Every::new().factory());
    let mut client = server.connect();
    for target in ["/panic", "/error", "/panic"] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.text().contains("secret")), (500, false));
    }
    assert_eq!(server.metric("corelane_panics_total{lane=\"0\"}"), 2.0);
    assert_eq!(client.get("/echo").status, 200);
}

#[rstest]
fn a_handler_is_dropped_with_its_client_whether_it_runs_or_waits(#[values(Plain, Hyper)] way: Way) {
    let every = Every::new();
    let limits = Limits { slots: 1, ..Limits::default() };
    let server = Running::start(settings(way).limits(limits), every.factory());
    let (mut running, mut waiting) = (server.connect(), server.connect());
    running.send_get("/gate");
    server.wait_for_metric("corelane_slow_requests_running{lane=\"0\"}", 1.0);
    waiting.send_get("/gate");
    server.wait_for_metric("corelane_slow_requests_waiting{lane=\"0\"}", 1.0);
    server.wait_until("called", || every.alive() == 1);
    drop(waiting);
    server.wait_for_metric("corelane_slow_requests_waiting{lane=\"0\"}", 0.0);
    drop(running);
    server.wait_for_in_flight(0);
    server.wait_until("dropped", || every.alive() == 0);
    assert_eq!(server.metric("corelane_slow_requests_total{lane=\"0\"}"), 2.0);
}

#[rstest]
fn what_is_too_much_or_too_late_is_answered_503(#[values(Plain, Hyper)] way: Way) {
    let every = Every::new();
    let limits = Limits { slots: 1, queue: 1, ..Limits::default() };
    let timeouts = Timeouts { request: Duration::from_secs(2), ..Timeouts::default() };
    let server = Running::start(settings(way).limits(limits).timeouts(timeouts), every.factory());
    let [mut running, mut waiting] = [server.connect(), server.connect()];
    running.send_get("/gate");
    server.wait_for_metric("corelane_slow_requests_running{lane=\"0\"}", 1.0);
    waiting.send_get("/gate");
    server.wait_for_metric("corelane_slow_requests_waiting{lane=\"0\"}", 1.0);
    let shed = server.get("/gate");
    assert!(shed.status == 503 && shed.header("retry-after").is_some(), "{shed:?}");
    assert_eq!(server.refused_requests("queue_full"), 1.0);
    for client in [&mut running, &mut waiting] {
        let late = client.read_answer();
        assert!(late.status == 503 && late.text().contains("deadline"), "{late:?}");
    }
    server.wait_until("dropped", || every.alive() == 0);
}

#[rstest]
fn a_drain_waits_for_what_runs(#[values(Plain, Hyper)] way: Way) {
    let every = Every::new();
    let server = Running::start(settings(way), every.factory());
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.send_get("/gate"));
    server.wait_for_metric("corelane_slow_requests_running{lane=\"0\"}", 3.0);
    server.handle.drain();
    server.wait_for_phase(corelane::Phase::Closing);
    every.gate.add_permits(3);
    for client in &mut clients {
        let answer = client.read_answer();
        assert!(answer.status == 200 && answer.closes(), "{answer:?}");
    }
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}

#[test]
fn a_handler_that_never_returns_is_left_behind_and_counted() {
    let holding = Holding::default();
    let server = Running::start(super::settings(), holding.factory());
    let mut client = server.connect();
    client.send_get("/hold");
    server.wait_until("held", || holding.held().contains("slow-0"));
    server.handle.stop();
    assert_eq!(server.join().expect("an end"), Drained { cut: 1 });
    holding.let_go();
}

#[test]
fn replies_over_http2_have_their_bodies_and_trailers() {
    let server = Running::start(settings(Hyper), Every::new().factory());
    with_worker(async {
        let (mut client, _) = http2(&server).await;
        let (reply, _) = client.send_request(get("/trailers"), true).expect("sent");
        let reply = reply.await.expect("a reply");
        assert_eq!(
            (reply.status(), &reply.headers()["x-slow"]),
            (StatusCode::OK, &HeaderValue::from(1))
        );
        let mut body = reply.into_body();
        assert_eq!(body.data().await.expect("data").expect("no error"), "data");
        assert!(body.data().await.is_none());
        let trailers = body.trailers().await.expect("no error").expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
        let (reply, mut upload) = client.send_request(get("/echo"), false).expect("sent");
        upload.send_data(Bytes::from("over http2"), true).expect("sent");
        let mut body = reply.await.expect("a reply").into_body();
        assert_eq!(body.data().await.expect("data").expect("no error"), "over http2");
    });
}
