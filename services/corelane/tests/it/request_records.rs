//! Request records: id, trace and observer data.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use crate::support::{
    BIG, BoxError, Handlers, PATIENCE, Running, TestService, Way,
    Way::{Hyper, Plain},
    worker::{self, http2, with_worker},
};
use bytes::Bytes;
use corelane::{
    Builder, Finished, Incoming, Lane, Lanes, Limits, RequestId, Timeouts, Times, Traces,
};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use rstest::rstest;
use tower::util::BoxCloneSyncService;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Owned copy of the observer's data.
#[derive(Debug)]
struct Told {
    what: String,
    status: Option<u16>,
    complete: bool,
    body_bytes: u64,
    times: Times,
    began: SystemTime,
    id: Option<String>,
    parent: Option<String>,
    span: Option<Option<[u8; 8]>>,
    authority: Option<String>,
}

fn told(request: &Finished<'_>) -> Told {
    let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
    Told {
        what: format!("{} {}", request.method, request.route),
        status: request.status.map(|status| status.as_u16()),
        complete: request.complete,
        body_bytes: request.body_bytes,
        times: request.times,
        began: request.began(),
        id: request.id().map(|id| id.to_string()),
        parent: request.trace.map(|trace| text(&trace.traceparent())),
        span: request.span.map(|span| span.parent),
        authority: request.span.and_then(|span| span.authority.map(text)),
    }
}

fn observed(builder: Builder) -> (Builder, Receiver<Told>) {
    let (sender, receiver) = channel();
    let observed = builder.request_ids(true).routes(["/hello", "/gate", "/big"]).observer(
        move |_lane: &Lane| {
            let sender = sender.clone();
            move |request: &Finished<'_>| sender.send(told(request)).expect("the test listens")
        },
    );
    (observed, receiver)
}

fn next(told: &Receiver<Told>) -> Told {
    told.recv_timeout(PATIENCE).expect("the observer is told")
}

/// Returns id, `traceparent` and `tracestate` as a handler sees them, also from a blocking call.
fn mirror(_lane: &Lane) -> TestService {
    fn seen() -> String {
        let id = corelane::request_id();
        let trace = corelane::trace_context();
        let text = |value: &http::HeaderValue| value.to_str().expect("ASCII").to_owned();
        let parent = trace.as_ref().map(|trace| text(&trace.traceparent()));
        let state = trace.as_ref().and_then(|trace| trace.tracestate().map(text));
        format!("{} {parent:?} {state:?}", id.as_ref().map_or("none", RequestId::as_str))
    }
    BoxCloneSyncService::new(tower::service_fn(async |_request: Request<Incoming>| {
        let first = seen();
        tokio::task::yield_now().await;
        assert_eq!(tokio::spawn(async { seen() }).await?, "none None None");
        assert_eq!(corelane::blocking(seen).await?, first);
        assert_eq!(seen(), first);
        Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(first)))
    }))
}

fn get(server: &Running, fields: &str) -> crate::support::Answer {
    let mut client = server.connect();
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test:80\r\n{fields}\r\n"));
    client.read_answer()
}

#[rstest]
fn an_id_that_came_is_taken_over_and_any_other_is_made(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().request_ids(true), mirror);
    let answer = get(&server, "X-Request-Id: from-the-client\r\n");
    assert_eq!(answer.header("x-request-id"), Some("from-the-client"));
    assert_eq!(answer.text(), "from-the-client None None");
    let long = "x".repeat(129);
    let mut made = Vec::new();
    for field in
        ["", "x-request-id: \r\n", "x-request-id: a b\r\n", &format!("x-request-id: {long}\r\n")]
    {
        let answer = get(&server, field);
        let id = answer.header("x-request-id").expect("an id").to_owned();
        assert_eq!((id.len(), answer.text()), (36, format!("{id} None None")), "{field}");
        made.push(id);
    }
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 4);
}

#[rstest]
fn a_recorded_trace_is_the_exemplar_of_its_duration(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().traces(Traces::PassOn), mirror);
    let exemplars = || {
        let text = server.admin_get("/metrics").text();
        text.lines().filter(|line| line.contains(" # {")).map(str::to_owned).collect::<Vec<_>>()
    };
    get(&server, "");
    get(&server, &format!("traceparent: 00-{TRACE}-{CALLER}-00\r\n"));
    assert_eq!(exemplars(), Vec::<String>::new(), "nobody records these");
    get(&server, &format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n"));
    let found = exemplars();
    let [line] = found.as_slice() else { panic!("one line, not {found:?}") };
    let (series, exemplar) = line.split_once(" # ").expect("an exemplar");
    assert!(series.starts_with("corelane_request_duration_seconds_bucket{lane=\"0\""), "{line}");
    let rest = exemplar.strip_prefix(&format!("{{trace_id=\"{TRACE}\"}} ")).expect("its trace");
    let numbers: Vec<f64> = rest.split(' ').map(|it| it.parse().expect("a number")).collect();
    let [seconds, at] = numbers[..] else { panic!("a value and a time, not {rest}") };
    assert!(seconds > 0.0 && at > 1e9, "{line}");
}

#[rstest]
fn without_the_switch_there_is_none(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), mirror);
    let answer = get(&server, "X-Request-Id: a\r\n");
    assert_eq!((answer.header("x-request-id"), answer.text()), (None, "none None None".to_owned()));
}

#[rstest]
fn replies_that_no_handler_made_carry_the_id_and_are_told(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { uri_bytes: 20, slots: 1, queue: 0, ..Limits::default() };
    let timeouts = Timeouts { request: Duration::from_millis(100), ..Timeouts::default() };
    let (observed, told) = observed(way.builder().limits(limits).timeouts(timeouts));
    let handlers = Handlers::new();
    let server = Running::start(observed, handlers.factory());
    let mut client = server.connect();
    let mut ask = |target: &str, id: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\nX-Request-Id: {id}\r\n\r\n"));
        let answer = client.read_answer();
        assert_eq!(answer.header("x-request-id"), Some(id));
        let told = next(&told);
        assert_eq!((told.id.as_deref(), told.status), (Some(id), Some(answer.status)));
        assert_eq!((told.body_bytes, told.complete), (answer.body.len() as u64, true));
        told
    };
    let refused = ask("/a-path-that-is-too-long", "refused");
    assert_eq!((refused.status, refused.times.handler), (Some(414), None));
    assert_eq!(ask("/panic", "panic").status, Some(500));
    let expired = ask("/gate", "late");
    assert_eq!(expired.status, Some(503));
    let times = expired.times;
    let waited = times.queue + times.handler.expect("the handler began");
    assert!(waited >= Duration::from_millis(100), "{times:?}");
}

#[rstest]
fn a_shed_request_is_told_with_its_id(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) =
        observed(way.builder().limits(Limits { slots: 1, queue: 0, ..Limits::default() }));
    let handlers = Handlers::new();
    let server = Running::start(observed, handlers.factory());
    let mut held = server.connect();
    held.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    let shed = server.get("/hello");
    let first = next(&told);
    assert_eq!((shed.status, first.status), (503, Some(503)));
    assert_eq!((first.id.as_deref(), first.times.handler), (shed.header("x-request-id"), None));
    handlers.gate.add_permits(1);
    assert_eq!(held.read_answer().text(), "through");
    assert_eq!(next(&told).what, "GET /gate");
}

#[rstest]
fn times_and_bytes_are_told_when_the_last_byte_is_taken(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) = observed(way.builder().lanes(Lanes::Count(1)));
    let handlers = Handlers::new();
    let server = Running::start(observed, handlers.factory());
    let before = SystemTime::now();
    let mut client = server.connect();
    client.send_get("/big");
    client.socket.peek(&mut [0]).expect("a reply has begun");
    // The lane serves other clients only when this client's socket is full.
    assert_eq!(server.get("/hello").status, 200);
    assert_eq!(next(&told).what, "GET /hello");
    assert!(told.try_recv().is_err());
    assert_eq!(client.read_answer().body.len(), BIG);
    let first = next(&told);
    assert_eq!((first.what.as_str(), first.body_bytes), ("GET /big", BIG as u64));
    assert!(first.complete && first.times.accept.is_some(), "{first:?}");
    assert!(first.times.write.is_some_and(|time| time > Duration::ZERO), "{first:?}");
    assert!(first.began >= before && first.began <= SystemTime::now(), "{first:?}");
    client.send("HEAD /hello HTTP/1.1\r\nHost: t\r\n\r\n");
    client.read_head_answer();
    let second = next(&told);
    assert_eq!((second.what.as_str(), second.body_bytes), ("HEAD /hello", 0));
    assert!(second.complete && second.times.accept.is_none(), "{second:?}");
}

#[rstest]
fn a_client_that_left_is_told_as_such(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) = observed(way.builder());
    let handlers = Handlers::new();
    let server = Running::start(observed, handlers.factory());
    let mut client = server.connect();
    client.send_get("/gate");
    server.wait_until("running", || handlers.alive() == 1);
    drop(client);
    let left = next(&told);
    assert_eq!((left.status, left.complete, left.times.write), (None, false, None));
    assert!(left.times.handler.is_some());
    let mut client = server.connect();
    client.send_get("/big");
    client.socket.peek(&mut [0]).expect("a reply has begun");
    drop(client);
    let cut = next(&told);
    assert_eq!((cut.status, cut.complete, cut.times.write), (Some(200), false, None));
}

/// A body that fails after this many pieces and then ends.
struct Broken(Option<usize>);

impl Body for Broken {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let left = self.0.and_then(|left| left.checked_sub(1));
        self.0 = left;
        Poll::Ready(Some(match left {
            Some(_) => Ok(Frame::data(Bytes::from_static(b"piece"))),
            None => Err("the file changed".into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}

#[rstest]
fn a_body_that_breaks_off_is_told_as_such_over_http2(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) = observed(way.builder());
    let server = Running::start(observed, |_lane: &Lane| {
        tower::service_fn(async |_request: Request<Incoming>| {
            Ok::<_, BoxError>(Response::new(Broken(Some(2))))
        })
    });
    with_worker(async {
        let (mut client, _) = http2(&server).await;
        let (reply, _) = client.send_request(worker::get("/hello"), true).expect("sent");
        // The reset may come first.
        if let Ok(reply) = reply.await {
            let mut body = reply.into_body();
            while let Some(Ok(_)) = body.data().await {}
        }
    });
    let broken = next(&told);
    assert_eq!((broken.what.as_str(), broken.complete), ("GET /hello", false));
    assert_eq!(broken.body_bytes, 2 * "piece".len() as u64);
}

#[rstest]
fn an_observer_that_panics_ends_nothing(#[values(Plain, Hyper)] way: Way) {
    let factory = Handlers::new().factory();
    let observed = way.builder().observer(|_lane: &Lane| |_: &Finished<'_>| panic!("an observer"));
    let server = Running::start(observed, factory);
    let mut client = server.connect();
    assert_eq!([client.get("/a").status, client.get("/b").status], [200, 200]);
    server.wait_until("counted", || server.metric("corelane_panics_total{lane=\"0\"}") == 2.0);
}

#[rstest]
fn a_context_is_passed_on_as_it_came_where_nothing_is_recorded(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().traces(Traces::PassOn), mirror);
    let parent = format!("00-{TRACE}-{CALLER}-01");
    let fields = format!("Traceparent: {parent}\r\nTracestate: a=1\r\nTracestate: b=2\r\n");
    assert_eq!(get(&server, &fields).text(), format!("none Some({parent:?}) Some(\"a=1,b=2\")"));
    assert_eq!(
        get(&server, "Traceparent: 00-1-2-3\r\nTracestate: a=1\r\n").text(),
        "none None None"
    );
}

#[rstest]
fn a_sampled_request_is_a_span_of_its_callers_trace(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) = observed(way.builder().traces(Traces::Record { ratio: 0.0 }));
    let server = Running::start(observed, mirror);
    let answer = get(&server, &format!("Traceparent: 00-{TRACE}-{CALLER}-01\r\n"));
    let sampled = next(&told);
    let parent = sampled.parent.expect("a trace");
    assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"), "{parent}");
    assert!(!parent.contains(CALLER) && answer.text().contains(&parent), "{parent}");
    assert_eq!(sampled.span, Some(Some([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7])));
    assert_eq!(sampled.authority.as_deref(), Some("a.test:80"));

    let unsampled = format!("00-{TRACE}-{CALLER}-00");
    assert!(get(&server, &format!("Traceparent: {unsampled}\r\n")).text().contains(&unsampled));
    let second = next(&told);
    assert_eq!((second.parent, second.span), (Some(unsampled), None));
    get(&server, "");
    let third = next(&told);
    assert_eq!((third.parent, third.span), (None, None));
}

#[rstest]
fn a_trace_begins_here_for_the_share_that_is_asked_for(#[values(Plain, Hyper)] way: Way) {
    let (observed, told) = observed(way.builder().traces(Traces::Record { ratio: 1.0 }));
    let server = Running::start(observed, mirror);
    for _ in 0..20 {
        get(&server, "");
        let begun = next(&told);
        assert_eq!(begun.span, Some(None));
        assert!(begun.parent.is_some_and(|parent| parent.ends_with("-03")));
    }
    assert!(way.builder().traces(Traces::Record { ratio: 1.5 }).validate().is_err());
}
