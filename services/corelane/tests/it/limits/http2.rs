//! HTTP/2 limits, with handwritten frames where client libraries refuse to send them.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream as Socket;

use bytes::Bytes;
use corelane::{Incoming, Limits, Timeouts};
use h2::client::SendRequest;
use http::{Request, Response, StatusCode};
use http_body_util::Full;

use super::{BRIEF, impatient, strict, wait_until_freed, with_limits};
use crate::support::{
    Client, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    builder,
    worker::{get, http2, with_worker},
};
use rstest::rstest;

/// Gives the HTTP/2 client its own worker, because the test blocks.
pub(super) fn with_client<F, T>(server: &Running, test: impl FnOnce(SendRequest<Bytes>) -> F)
where
    F: Future<Output = T>,
{
    with_worker(async {
        let (client, _) = http2(server).await;
        tokio::time::timeout(PATIENCE, test(client)).await.expect("in time");
    });
}

pub(super) async fn status_of(client: &mut SendRequest<Bytes>, request: Request<()>) -> StatusCode {
    let (reply, _) = client.send_request(request, true).expect("sent");
    reply.await.expect("a reply").status()
}

#[rstest]
fn a_body_that_stops_coming_is_answered_408_and_ends_its_stream_alone(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, handlers) = strict(way, Timeouts { body: BRIEF, ..Timeouts::default() });
    with_client(&server, |mut client| async move {
        let post = Request::post("http://test/echo").body(()).expect("a request");
        let (reply, mut body) = client.send_request(post, false).expect("sent");
        body.send_data("abc".into(), false).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 408);
        assert_eq!(status_of(&mut client, get("/hello")).await, 200);
    });
    assert_eq!(server.refused_requests("body_timeout"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_stream_whose_window_stays_closed_is_reset_and_the_others_flow(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, handlers) = strict(way, Timeouts { write: BRIEF, ..Timeouts::default() });
    let (freed, alive) = (&server, &handlers);
    with_client(&server, |mut client| async move {
        let (reply, _) = client.send_request(get("/big"), true).expect("sent");
        let mut body = reply.await.expect("a head").into_body();
        let mut received = 0;
        let reason = loop {
            // Capacity is never released, so the window fills up.
            match body.data().await.expect("no whole reply") {
                Ok(data) => received += data.len(),
                Err(error) => break error.reason(),
            }
            if received == 65_535 {
                assert_eq!(status_of(&mut client, get("/hello")).await, 200);
            }
        };
        assert_eq!(reason, Some(h2::Reason::CANCEL));
        freed.wait_until("freed", || alive.alive() == 0);
        let hello = client.clone().ready().await.map(|_| ());
        hello.expect("the connection lives");
        assert_eq!(freed.refused("write_timeout"), 1.0);
    });
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_client_that_reads_nothing_is_cut_off(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts { write: BRIEF, ..Timeouts::default() });
    let mut client = Frames::open(&server);
    // Both windows exceed any response.
    client.frame(4, 0, 0, &[0, 4, 0x3f, 0xff, 0xff, 0xff]);
    client.frame(8, 0, 0, &[0x3f, 0, 0, 0]);
    client.get(1, "/big", true);
    server.wait_until("cut off", || server.refused("write_timeout") >= 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_slow_but_steady_reader_lives(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = strict(way, Timeouts { write: 2 * BRIEF, ..Timeouts::default() });
    with_client(&server, |mut client| async move {
        let (reply, _) = client.send_request(get("/big"), true).expect("sent");
        let mut body = reply.await.expect("a head").into_body();
        let (mut received, mut slept) = (0, 0);
        while let Some(data) = body.data().await {
            let length = data.expect("data").len();
            received += length;
            body.flow_control().release_capacity(length).expect("released");
            if received >= slept + (1 << 20) {
                slept = received;
                tokio::time::sleep(BRIEF / 10).await;
            }
        }
        assert_eq!(received, crate::support::BIG);
    });
    assert_eq!(server.refused("write_timeout"), 0.0);
}

#[rstest]
fn too_many_header_fields_are_answered_431(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { headers: 10, ..Limits::default() };
    let (server, handlers) = with_limits(way, limits);
    with_client(&server, |mut client| async move {
        let with = |fields: usize| {
            let mut request = get("/hello");
            for field in 0..fields {
                let name = format!("a{field}").parse::<http::HeaderName>().expect("a name");
                request.headers_mut().insert(name, "b".parse().expect("a value"));
            }
            request
        };
        assert_eq!(status_of(&mut client, with(10)).await, 200);
        assert_eq!(status_of(&mut client, with(11)).await, 431);
    });
    assert_eq!(server.refused_requests("too_many_headers"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_header_list_that_is_too_large_is_answered_431(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { header_bytes: 8192, ..Limits::default() };
    let (server, handlers) = with_limits(way, limits);
    with_client(&server, |mut client| async move {
        let with = |bytes: usize| {
            let mut request = get("/hello");
            request.headers_mut().insert("a", "b".repeat(bytes).parse().expect("a value"));
            request
        };
        // The pseudo-headers and "a", each with 32 bytes of overhead.
        let rest = (7 + 3) + (7 + 4) + (10 + 4) + (5 + 6) + 1 + 5 * 32;
        assert_eq!(status_of(&mut client, with(8192 - rest)).await, 200);
        let (reply, _) = client.send_request(with(8192 - rest + 1), true).expect("sent");
        let (head, mut body) = reply.await.expect("a reply").into_parts();
        assert_eq!(head.status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        assert_eq!(head.headers["content-type"], "application/problem+json");
        let text = body.data().await.expect("a body").expect("data");
        let slug = b"urn:corelane:problem:request-header-fields-too-large";
        assert!(text.windows(slug.len()).any(|part| part == slug), "{text:?}");
        // h2 itself rejects extreme sizes, which are not counted.
        assert_eq!(status_of(&mut client, with(40_000)).await, 431);
        assert_eq!(status_of(&mut client, get("/hello")).await, 200);
    });
    wait_until_freed(&server, &handlers);
    assert_eq!(server.refused_requests("header_too_large"), 1.0);
}

/// RFC 9113 sections 8.2.3 and 8.3.1: services see the same fields as with HTTP/1.1.
#[test]
fn cookies_that_come_in_pieces_are_one_field_and_the_authority_is_the_host() {
    let limits = Limits { headers: 3, header_bytes: 8192, ..Limits::default() };
    let server = Running::start(builder().limits(limits), |_lane| {
        tower::service_fn(async |request: Request<Incoming>| {
            let fields =
                request.headers().iter().map(|(name, value)| format!("{name}: {value:?}\n"));
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(fields.collect::<String>())))
        })
    });
    with_client(&server, |mut client| async move {
        let pieces: Vec<_> = (0..99).map(|n| format!("a{n}=b")).collect();
        let one = format!("cookie: {:?}\n", pieces.join("; "));
        let long = vec!["x".repeat(4096), "y".repeat(4096)];
        let cases = [
            (pieces, vec![], Some(format!("{one}host: \"test\"\n"))),
            (
                vec!["a=b".to_owned()],
                vec!["c", "d"],
                Some("cookie: \"a=b\"\nx-c: \"1\"\nx-d: \"1\"\nhost: \"test\"\n".to_owned()),
            ),
            (vec!["a=b".to_owned(), "c=d".to_owned()], vec!["c", "d", "e"], None),
            (long, vec![], None),
        ];
        for (pieces, others, expected) in cases {
            let mut request = get("/");
            for piece in pieces {
                request.headers_mut().append("cookie", piece.parse().expect("a value"));
            }
            for name in others {
                let name = format!("x-{name}").parse::<http::HeaderName>().expect("a name");
                request.headers_mut().insert(name, "1".parse().expect("a value"));
            }
            let (reply, _) = client.send_request(request, true).expect("sent");
            let (head, mut body) = reply.await.expect("a reply").into_parts();
            assert_eq!(head.status, if expected.is_some() { 200 } else { 431 });
            let text = body.data().await.expect("a body").expect("data");
            if let Some(expected) = expected {
                assert_eq!(String::from_utf8_lossy(&text), expected);
            }
        }
    });
}

/// Sends raw frames (RFC 9113 section 4.1).
pub(super) struct Frames {
    client: Client,
    out: Vec<u8>,
}

const PING: u8 = 6;
const ACK: u8 = 1;
const GOAWAY: u8 = 7;
const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 0xb;

impl Frames {
    pub(super) fn open(server: &Running) -> Frames {
        let mut frames = Frames { client: server.connect(), out: Vec::new() };
        frames.client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        frames.frame(4, 0, 0, &[]);
        frames
    }

    fn add(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        self.out.extend_from_slice(&[kind, flags]);
        self.out.extend_from_slice(&stream.to_be_bytes());
        self.out.extend_from_slice(payload);
    }

    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.add(kind, flags, stream, payload);
        self.flush();
    }

    /// Sends the queued frames, although the server may already have closed the connection.
    pub(super) fn flush(&mut self) {
        let mut socket: &Socket = &self.client.socket;
        let _ = socket.write_all(&self.out);
        self.out.clear();
    }

    /// A GET as HEADERS: indexed fields (RFC 7541 appendix A), literal path and host.
    pub(super) fn get(&mut self, stream: u32, path: &str, whole: bool) {
        self.add_get(stream, path, whole);
        self.flush();
    }

    pub(super) fn add_get(&mut self, stream: u32, path: &str, whole: bool) {
        let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(&[0x01, 1, b't']);
        self.add(1, if whole { 5 } else { 1 }, stream, &block);
    }

    /// Returns the type, flags and payload of the next frame, or `None` once the server has closed
    /// the connection.
    pub(super) fn read(&mut self) -> Option<(u8, u8, Vec<u8>)> {
        let mut head = [0; 9];
        match self.client.socket.read(&mut head[..1]).expect("no reset") {
            0 => return None,
            _ => self.client.socket.read_exact(&mut head[1..]).expect("a whole head"),
        }
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.client.socket.read_exact(&mut payload).expect("a whole frame");
        Some((head[3], head[4], payload))
    }

    /// Reads to the end and returns the code of the last GOAWAY.
    fn goaway(&mut self) -> Option<u32> {
        let bytes = self.client.read_to_close();
        let mut rest = bytes.as_slice();
        let mut code = None;
        while let Some((head, tail)) = rest.split_at_checked(9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some((payload, next)) = tail.split_at_checked(length) else { break };
            if head[3] == GOAWAY {
                code = payload[4..8].try_into().ok().map(u32::from_be_bytes);
            }
            rest = next;
        }
        code
    }
}

/// Late frames would turn the close into a reset, which can lose responses.
#[rstest]
fn a_client_that_speaks_on_after_the_end_is_not_reset(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { connection_requests: Some(1), ..Limits::default() };
    let (server, handlers) = with_limits(way, limits);
    let mut client = Frames::open(&server);
    client.get(1, "/hello", true);
    let mut last = 0;
    while let Some((kind, flags, payload)) = client.read() {
        if (kind, flags) == (PING, 0) {
            client.frame(PING, ACK, 0, &payload);
        }
        last = kind;
    }
    assert_eq!(last, GOAWAY);
    for _ in 0..3 {
        // Sending would fail if the first frame had caused a reset.
        client.client.send([&[0, 0, 8, PING, 0, 0, 0, 0, 0][..], &[0; 8]].concat());
        assert_eq!(server.admin_get("/healthz").status, 200);
    }
    assert!(client.read().is_none());
    drop(client);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_rapid_reset_ends_the_connection(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts::default());
    let mut client = Frames::open(&server);
    for stream in (1..2000).step_by(2) {
        client.add_get(stream, "/gate", true);
        client.add(3, 0, stream, &[0, 0, 0, 8]);
    }
    client.flush();
    assert_eq!(client.goaway(), Some(ENHANCE_YOUR_CALM));
    server.wait_until("counted", || server.refused("flood") == 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn requests_that_are_reset_one_by_one_leave_nothing(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts::default());
    with_client(&server, async |mut client: SendRequest<Bytes>| {
        // Resets more streams than the limit on unprocessed streams allows, but all of these
        // streams have been processed.
        for _ in 0..150 {
            client = client.ready().await.expect("ready");
            let (reply, mut stream) = client.send_request(get("/gate"), true).expect("sent");
            server.wait_for_in_flight(1);
            stream.send_reset(h2::Reason::CANCEL);
            drop(reply);
            server.wait_for_in_flight(0);
        }
    });
    assert_eq!(server.refused("flood"), 0.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_header_that_goes_on_for_ever_ends_the_connection(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, Timeouts::default());
    let mut client = Frames::open(&server);
    client.add_get(1, "/gate", false);
    for _ in 0..2000 {
        client.add(9, 0, 1, &[0, 1, b'a', 1, b'b'].repeat(100));
    }
    client.flush();
    assert_eq!(client.goaway(), Some(ENHANCE_YOUR_CALM));
    server.wait_until("counted", || server.refused("flood") == 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_header_that_stops_coming_is_bounded_by_the_idle_deadline(#[values(Plain, Hyper)] way: Way) {
    // After GOAWAY the client has one more header timeout to disconnect.
    let timeouts = Timeouts { idle: BRIEF, header: 2 * BRIEF, ..Timeouts::default() };
    let (server, handlers) = strict(way, timeouts);
    let mut client = Frames::open(&server);
    client.get(1, "/hello", true);
    client.get(3, "/gate", false);
    client.client.read_to_close();
    assert_eq!(server.refused("idle_timeout"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_connection_without_a_request_is_told_before_it_is_closed(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, impatient());
    let mut client = Frames::open(&server);
    // Without GOAWAY the client does not know whether a pending request was started (RFC 9113
    // section 6.8).
    assert_eq!(client.goaway(), Some(NO_ERROR));
    assert_eq!(server.refused("header_timeout"), 1.0);
    wait_until_freed(&server, &handlers);
}
