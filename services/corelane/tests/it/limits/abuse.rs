//! Clients that tie up memory, time or connections.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use corelane::{Cut, Finished, Incoming, Lane, Limits, Placement, Timeouts};
use futures_util::{StreamExt, stream};
use h2::client::SendRequest;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, StreamBody};
use rstest::rstest;

use super::http2::{Frames, status_of, with_client};
use super::{BRIEF, start, wait_until_freed};
use crate::support::tls::Authority;
use crate::support::worker::get;
use crate::support::{
    Client, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    big, builder,
};

/// Sizes of one part and of a whole [`Parts`] response.
const PART: usize = 32 << 10;
const WHOLE: usize = 16 * PART;

/// Produces its parts on demand and counts them. Each part is pending once before it is ready.
struct Parts {
    left: usize,
    begun: bool,
    made: Arc<AtomicUsize>,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.begun = !self.begun;
        if self.begun {
            self.made.fetch_add(1, Ordering::SeqCst);
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.left -= PART;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; PART])))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

fn parts(way: Way, limits: Limits) -> (Running, Arc<AtomicUsize>) {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let server = Running::start(way.builder().limits(limits), move |_lane: &Lane| {
        let made = Arc::clone(&count);
        tower::service_fn(move |_request: Request<Incoming>| {
            let body = Parts { left: WHOLE, begun: false, made: Arc::clone(&made) };
            async move { Ok::<_, std::convert::Infallible>(Response::new(body)) }
        })
    });
    (server, made)
}

const UNSENT: &str = "corelane_replies_unsent_bytes{lane=\"0\"}";
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;

/// A client with many open streams and no flow-control window.
fn without_room(server: &Running, streams: u32) -> Frames {
    let mut client = Frames::open(server);
    client.frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    (0..streams).for_each(|stream| client.add_get(2 * stream + 1, "/", true));
    client.flush();
    client
}

#[rstest]
fn a_connection_without_a_window_holds_no_more_than_its_bound(#[values(Plain, Hyper)] way: Way) {
    const STREAMS: u32 = 50;
    let bound = 4 * PART;
    let limits = Limits { unsent_connection_bytes: bound, ..Limits::default() };
    let (server, made) = parts(way, limits);
    let mut client = without_room(&server, STREAMS);
    server.wait_for_in_flight(STREAMS);
    server.wait_for_metric(UNSENT, bound as f64);
    assert_eq!(made.load(Ordering::SeqCst), bound / PART, "no service is asked for more");
    // No response was cut, so all responses arrive once the window opens.
    client.frame(SETTINGS, 0, 0, &[0, 4, 0x3f, 0xff, 0xff, 0xff]);
    client.frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0]);
    let mut received = 0;
    while received < STREAMS as usize * WHOLE {
        let (kind, _, payload) = client.read().expect("more");
        received += if kind == DATA { payload.len() } else { 0 };
    }
    assert_eq!(made.load(Ordering::SeqCst), STREAMS as usize * WHOLE / PART);
    server.wait_for_metric(UNSENT, 0.0);
}

#[rstest]
fn above_the_bound_of_the_process_requests_are_shed_until_clients_read_or_are_cut(
    #[values(Plain, Hyper)] way: Way,
) {
    let limits = Limits { unsent_bytes: 1 << 20, ..Limits::default() };
    let (server, made) = parts(way, limits);
    // This response makes progress while the other responses stall.
    let mut steady = without_room(&server, 1);
    server.wait_for_metric(UNSENT, PART as f64);
    // Only the last parts of the responses exceed the limit, so no request is shed.
    let hoarders: Vec<_> = (0..2).map(|_| without_room(&server, 16)).collect();
    server.wait_for_metric(UNSENT, (33 * PART) as f64);
    let before = made.load(Ordering::SeqCst);
    let answer = server.get("/");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("5")));
    assert!(answer.text().contains("urn:corelane:problem:overloaded"), "{}", answer.text());
    assert_eq!(made.load(Ordering::SeqCst), before, "the service was not called");
    assert_eq!(server.refused_requests("unsent_bytes"), 1.0);
    server.wait_until("cut", || {
        steady.frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
        server.refused("unsent_bytes") > 0.0
    });
    // hyper may buffer two parts of the steady response.
    server.wait_until("freed", || server.metric(UNSENT) <= 2.0 * PART as f64);
    assert_eq!(server.get("/").status, 200);
    steady.frame(WINDOW_UPDATE, 0, 1, &[0x3f, 0, 0, 0]);
    steady.frame(WINDOW_UPDATE, 0, 0, &[0x3f, 0, 0, 0]);
    let mut received = 0;
    while received < WHOLE {
        let (kind, _, payload) = steady.read().expect("more");
        assert!(kind != RST_STREAM, "reset after {received} bytes");
        received += if kind == DATA { payload.len() } else { 0 };
    }
    drop(hoarders);
}

type Cuts = Arc<Mutex<Vec<Cut>>>;

fn watched(way: Way, limits: Limits, timeouts: Timeouts) -> (corelane::Builder, Cuts) {
    let cuts = Cuts::default();
    let seen = Arc::clone(&cuts);
    let builder = way.builder().limits(limits).timeouts(timeouts).observer(move |_lane| {
        let seen = Arc::clone(&seen);
        move |request: &Finished<'_>| seen.lock().expect("no panic").extend(request.cut)
    });
    (builder, cuts)
}

/// Waits until the observer reports this cut and no other. The counters change before that report,
/// and the connection may be closed by then.
fn wait_for_cut(server: &Running, cuts: &Cuts, cut: Cut) {
    server.wait_until("told", || !cuts.lock().expect("no panic").is_empty());
    assert_eq!(*cuts.lock().expect("no panic"), [cut]);
}

/// A minimum rate that no client reaches within [`BRIEF`].
fn demanding() -> (Limits, Timeouts) {
    let limits =
        Limits { send_rate: Some(1 << 40), receive_rate: Some(1 << 40), ..Limits::default() };
    (limits, Timeouts { slow: BRIEF, write: PATIENCE, body: PATIENCE, ..Timeouts::default() })
}

/// Reads too slowly until the server closes the connection.
fn dawdle<S: Read + Write>(mut client: Client<S>) {
    client.send_get("/");
    let mut some = vec![0; 128 << 10];
    // An exact length, because TLS returns one record per read.
    while client.socket.read_exact(&mut some).is_ok() {
        std::thread::sleep(BRIEF / 10);
    }
}

#[rstest]
fn a_client_that_reads_too_slowly_is_reset(
    #[values(Plain, Hyper)] way: Way,
    #[values(false, true)] tls: bool,
) {
    let (limits, timeouts) = demanding();
    let (mut builder, cuts) = watched(way, limits, timeouts);
    let authority = Authority::new();
    if tls {
        builder = builder.tls(authority.ready());
    }
    let server = Running::start(builder, big);
    if tls {
        dawdle(authority.connect(server.address));
    } else {
        dawdle(server.connect());
    }
    assert_eq!((server.refused("slow_reader"), server.refused("write_timeout")), (1.0, 0.0));
    server.wait_for_connections(0);
    wait_for_cut(&server, &cuts, Cut::SlowReader);
}

#[rstest]
fn a_stream_whose_window_opens_too_slowly_is_reset_alone(#[values(Plain, Hyper)] way: Way) {
    let (limits, timeouts) = demanding();
    let (builder, cuts) = watched(way, limits, timeouts);
    let server = Running::start(builder, big);
    let mut client = without_room(&server, 1);
    // With a deadline for each byte, an occasional byte would always reset it.
    server.wait_until("reset", || {
        client.frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
        server.refused("slow_reader") == 1.0
    });
    server.wait_for_in_flight(0);
    wait_for_cut(&server, &cuts, Cut::SlowReader);
    assert_eq!(server.metric("corelane_connections{lane=\"0\"}"), 1.0);
}

#[rstest]
fn a_service_may_be_slower_than_its_client_has_to_be(#[values(Plain, Hyper)] way: Way) {
    let (limits, timeouts) = demanding();
    let (builder, cuts) = watched(way, limits, timeouts);
    let server = Running::start(builder, |_lane: &Lane| {
        tower::service_fn(|_request: Request<Incoming>| async {
            let bytes = stream::iter(0..12).then(async |at| {
                tokio::time::sleep(BRIEF / 4 * at.min(1)).await;
                Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b"x")))
            });
            Ok::<_, std::convert::Infallible>(Response::new(StreamBody::new(bytes)))
        })
    });
    let mut client = server.connect();
    let mut frames = Frames::open(&server);
    frames.get(1, "/", true);
    client.send_get("/");
    assert!(client.read_until(b"0\r\n\r\n").contains("200 OK"));
    let mut received = 0;
    while received < 12 {
        let (kind, _, payload) = frames.read().expect("more");
        received += if kind == DATA { payload.len() } else { 0 };
    }
    assert_eq!(server.refused("slow_reader"), 0.0);
    assert!(cuts.lock().expect("no panic").is_empty());
}

#[rstest]
fn a_body_that_arrives_too_slowly_is_answered_408(#[values(Plain, Hyper)] way: Way) {
    let (limits, timeouts) = demanding();
    let (builder, cuts) = watched(way, limits, timeouts);
    let handlers = Handlers::new();
    let server = Running::start(builder, handlers.factory());
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
    while client.socket.write_all(b"x").is_ok() && server.refused_requests("slow_body") == 0.0 {
        std::thread::sleep(BRIEF / 50);
    }
    assert_eq!(client.read_answer().status, 408);
    assert_eq!(server.refused_requests("body_timeout"), 0.0);
    drop(client);
    wait_until_freed(&server, &handlers);
    wait_for_cut(&server, &cuts, Cut::SlowBody);
}

#[rstest]
fn a_body_that_trickles_over_http2_is_answered_408_and_ends_its_stream_alone(
    #[values(Plain, Hyper)] way: Way,
) {
    let (limits, timeouts) = demanding();
    let (builder, cuts) = watched(way, limits, timeouts);
    let handlers = Handlers::new();
    let server = Running::start(builder, handlers.factory());
    with_client(&server, async |mut client: SendRequest<Bytes>| {
        let (other, _) = client.send_request(get("/gate"), true).expect("sent");
        let post = Request::post("http://test/echo").body(()).expect("a request");
        let (mut reply, mut body) = client.send_request(post, false).expect("sent");
        let reply = loop {
            tokio::select! {
                reply = &mut reply => break reply.expect("a reply"),
                () = tokio::time::sleep(BRIEF / 50) => {
                    // Sending fails after the reset, but the response has arrived by then.
                    let _ = body.send_data(Bytes::from_static(b"x"), false);
                }
            }
        };
        assert_eq!(reply.status(), 408);
        // RFC 9113 section 8.1: the response is complete, and the server no longer wants the
        // request body.
        let reset = poll_fn(|cx| body.poll_reset(cx)).await.expect("a reset");
        assert_eq!(reset, h2::Reason::NO_ERROR);
        handlers.gate.add_permits(1);
        assert_eq!(other.await.expect("a reply").status(), 200, "a stream that was open");
        assert_eq!(status_of(&mut client, get("/hello")).await, 200);
    });
    assert_eq!(server.refused_requests("slow_body"), 1.0);
    assert_eq!(server.refused_requests("body_timeout"), 0.0);
    wait_until_freed(&server, &handlers);
    wait_for_cut(&server, &cuts, Cut::SlowBody);
}

/// Responds and reads at the same time, except for `/waits`, which reads the whole request first.
fn talker(
    _lane: &Lane,
) -> impl tower::Service<
    Request<Incoming>,
    Response = Response<http_body_util::combinators::UnsyncBoxBody<Bytes, corelane::BodyError>>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone
+ use<> {
    tower::service_fn(|request: Request<Incoming>| async {
        if request.uri().path() != "/waits" {
            return Ok(Response::new(request.into_body().boxed_unsync()));
        }
        let body = request.into_body().collect().await;
        let status = if body.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let mut reply = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *reply.status_mut() = status;
        Ok(reply)
    })
}

#[rstest]
fn a_client_that_talks_with_a_service_may_be_slow(#[values(Plain, Hyper)] way: Way) {
    let (limits, timeouts) = demanding();
    let (builder, cuts) = watched(way, limits, timeouts);
    let server = Running::start(builder, talker);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 12\r\n\r\n");
    client.read_until(b"\r\n\r\n");
    for _ in 0..12 {
        client.send("x");
        client.read_until(b"x");
        std::thread::sleep(BRIEF / 4);
    }
    assert_eq!(client.get("/").status, 200);
    assert!(cuts.lock().expect("no panic").is_empty());
}

/// Waits for the 408 response to another body, which stalls until `timeouts.body` has passed.
fn wait_for_a_body_timeout(server: &Running) {
    let mut other = server.connect();
    other.send("POST /waits HTTP/1.1\r\nHost: t\r\nContent-Length: 12\r\n\r\n");
    assert_eq!(other.read_answer().status, 408);
}

#[rstest]
fn a_client_that_talks_with_a_service_may_be_silent(#[values(Plain, Hyper)] way: Way) {
    let timeouts = Timeouts { body: BRIEF, ..Timeouts::default() };
    let server = Running::start(way.builder().timeouts(timeouts), talker);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n");
    client.read_until(b"\r\n\r\n");
    let (server, talking) = (&server, &mut client);
    // Like bidirectional gRPC.
    with_client(server, |mut streams| async move {
        let call = Request::post("http://test/").body(()).expect("a request");
        let (reply, mut sent) = streams.send_request(call, false).expect("sent");
        let mut heard = reply.await.expect("a head").into_body();
        for text in ["x", "y"] {
            wait_for_a_body_timeout(server);
            talking.send(text);
            talking.read_until(text.as_bytes());
            sent.send_data(text.into(), text == "y").expect("sent");
            assert_eq!(heard.data().await.expect("data").expect("no reset"), text);
        }
        assert!(heard.data().await.is_none());
    });
    assert_eq!(client.get("/").status, 200);
    assert_eq!(server.refused_requests("body_timeout"), 2.0);
}

/// Unacknowledged bytes in the kernel (`tx_queue`, proc_net_tcp(5)). `None` if the entry is
/// missing, which happens while other connections close.
fn kept_by_the_kernel(server: &Running, client: &Client) -> Option<usize> {
    let ports = [server.address, client.socket.local_addr().expect("an address")]
        .map(|address| format!(":{:04X}", address.port()));
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the sockets");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row =
        rows.into_iter().find(|row| row[1].ends_with(&ports[0]) && row[2].ends_with(&ports[1]))?;
    let queues = row[4].split_once(':').expect("two queues");
    Some(usize::from_str_radix(queues.0, 16).expect("a number"))
}

#[rstest]
fn the_kernel_takes_little_for_a_client_that_does_not_read(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = start(way, Limits::default(), Timeouts::default());
    let mut client = server.connect();
    client.send_get("/big");
    let kept = || kept_by_the_kernel(&server, &client);
    server.wait_until("a part of the reply", || kept().is_some_and(|bytes| bytes >= 64 << 10));
    // The lane turns to other clients only once the socket is full.
    assert!((0..20).all(|_| server.get("/hello").status == 200));
    let mut bytes = None;
    server.wait_until("seen again", || {
        bytes = kept();
        bytes.is_some()
    });
    assert!(bytes.is_some_and(|bytes| bytes < 512 << 10), "{bytes:?} bytes");
}

pub(crate) fn connect_from(source: [u8; 4], to: SocketAddr) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::from(source)), 0);
    socket.bind(&source.into()).expect("an address of this machine");
    socket.connect(&to.into()).expect("connect");
    let socket = TcpStream::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    Client::over(socket)
}

#[rstest]
fn connections_of_an_address_are_limited(
    #[values(Placement::Hashed, Placement::LeastLoaded)] placement: Placement,
) {
    let limits = Limits { connections_per_address: Some(2), ..Limits::default() };
    let handlers = Handlers::new();
    let server = Running::start(builder().placement(placement).limits(limits), handlers.factory());
    let (one, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let mut clients = [one, one, other].map(|source| connect_from(source, server.address));
    assert!(clients.iter_mut().all(|client| client.get("/hello").status == 200));
    let answer = connect_from(one, server.address).read_answer();
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    assert_eq!((server.refused("address_limit"), server.refused("limit")), (1.0, 0.0));
    let [first, ..] = clients;
    drop(first);
    server.wait_for_connections(2);
    assert_eq!(connect_from(one, server.address).get("/hello").status, 200);
}

#[test]
fn without_a_limit_an_address_has_any_number_of_connections() {
    let (server, _) = start(Plain, Limits::default(), Timeouts::default());
    let mut clients: Vec<_> = (0..50).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/hello").status == 200));
}
