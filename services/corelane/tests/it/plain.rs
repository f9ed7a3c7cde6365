//! Tests that clients cannot tell whether the plain path serves their requests.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use crate::support::pair::{Known, Pair, Parts, explain};
use crate::support::{DISTANT, Handlers, Running, Way, builder};
use bytes::Bytes;
use corelane::{BodyError, Builder, Incoming, Limits, Timeouts};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use rstest::rstest;

const GET: &str = "GET /a HTTP/1.1\r\nHost: t\r\n\r\n";
const POST: &str = "POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc";

/// Byte sequences as clients send them, plain or not.
fn conversations() -> Vec<String> {
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n");
    let with = |fields: &str| format!("GET /a HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    let switch = |fields: &str| format!("GET /101 HTTP/1.1\r\nHost: t\r\n{fields}\r\n");
    let head = |target: &str| format!("HEAD {target} HTTP/1.1\r\nHost: t\r\n\r\n");
    vec![
        GET.repeat(3),
        format!("{GET}{POST}{GET}"),
        format!("{}{GET}", with("Connection: keep-alive\r\n")),
        format!("{}{GET}", with("Connection: close\r\n")),
        format!("{}{GET}", with("A: b\r\na: c\r\nCookie: d=e; f=g\r\n")),
        format!("{}{GET}", with("A:  b \r\n")),
        format!("{}{GET}", with("A: b\r\n c\r\n")),
        format!("{}{GET}", with("A: b\n")),
        format!("{}{GET}", with("Host: u\r\n")),
        format!("{}{GET}", with("Expect: 100-continue\r\n")),
        format!("{}{GET}", with("Upgrade: h2c\r\n")),
        format!("{GET}{}{GET}", switch("Connection: upgrade\r\nUpgrade: echo\r\n")),
        format!("{}{GET}", switch("Upgrade: echo\r\n")),
        format!("{}{GET}", switch("A: b\r\n")),
        format!("{}{GET}", with("Transfer-Encoding: chunked\r\n") + "1\r\na\r\n0\r\n\r\n"),
        format!("{GET}\r\n{GET}"),
        format!("{GET}GET /a HTTP/1.0\r\n\r\n{GET}"),
        format!("{GET}GET /a#b HTTP/1.1\r\nHost: t\r\n\r\n{GET}"),
        format!("{GET}nonsense\r\n\r\n{GET}"),
        format!("{GET}OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n{GET}"),
        format!("{}{}{GET}", head("/a"), head("/unknown/parts")),
        format!("{}{}{}{GET}", get("/204/none"), get("/304/none"), get("/404")),
        format!("{}{}{GET}", get("/204"), get("/304")),
        format!("{}{}{GET}", get("/599/none"), get("/wait")),
        format!("{}{GET}", get("/wait/slow/parts")),
        format!("{}{GET}{}{GET}", get("/parts"), get("/long")),
        format!("{}{GET}", get("/unknown/parts")),
        format!("{}{GET}", get("/slow/unknown/long")),
        format!("{GET}{}{GET}", get("/close")),
        format!("{}{GET}", get("/wait").repeat(4)),
        format!("{}{GET}{POST}", POST.repeat(3)),
        format!("{}{GET}", post("PATCH", "/wait/slow/parts", 300)),
        format!("{}{GET}", post("PUT", "/unknown/parts", 300)),
        format!("{}{POST}{GET}", post("PUT", "/close", 3)),
        format!("{}{GET}", post("PUT", "/204", 0)),
        format!("{}{GET}", post("DELETE", "/b", 3)),
        format!("{}{GET}", post("GET", "/b", 3)),
        format!("{GET}POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 03\r\n\r\nabc{GET}"),
        format!("{GET}POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 3, 3\r\n\r\nabc{GET}"),
        format!("{POST}\r\n{GET}"),
        "GET /a HTTP/2.0\r\nHost: t\r\n\r\n".to_owned(),
        format!("{GET}GET /a HTTP/0.9\r\n\r\n"),
        format!("{GET}GET /a http/1.1\r\nHost: t\r\n\r\n{GET}"),
        format!("{GET}GET /a HTTP/1g.1\r\nHost: t\r\n\r\n{GET}"),
        format!("{GET}G@T /a HTTP/1.1\r\nHost: t\r\n\r\n{GET}"),
        format!("{}GET /a HTTP/1.1\r\nHost : t\r\n\r\n", head("/a")),
        format!("{GET}INVITE sip:me SIP/2.0\r\n\r\n"),
        format!("{GET}\x16\x03\x01\x02\0\x01"),
    ]
}

fn post(method: &str, target: &str, length: usize) -> String {
    let head = format!("{method} {target} HTTP/1.1\r\nHost: t\r\n");
    format!("{head}Content-Length: {length}\r\n\r\n{}", "b".repeat(length))
}

#[test]
fn a_client_cannot_tell_who_answers_nor_how_its_bytes_arrived() {
    let pair = Pair::start();
    for said in conversations() {
        let bytes = said.as_bytes();
        let [whole, _] = pair.hear(&[bytes]);
        // Sends the bytes whole, split in two at every third position, and byte by byte.
        let cuts =
            (0..bytes.len()).step_by(3).map(|at| <[_; 2]>::from(bytes.split_at(at)).to_vec());
        for pieces in cuts.chain([bytes.chunks(1).collect()]) {
            for heard in pair.hear(&pieces) {
                let same = explain(&whole, &heard);
                assert_eq!(same, Some(vec![]), "{pieces:?}: {heard:?} and {whole:?}");
            }
        }
    }
}

#[test]
fn a_head_has_one_limit_however_it_comes() {
    const ALLOWED: usize = 32 * 1024;
    let pair = Pair::start();
    let absolute = "GET http://t/a HTTP/1.1\r\nHost: t\r\n\r\n";
    for (size, status) in [(ALLOWED, 200), (ALLOWED + 1, 431), (36_000, 431), (100_000, 431)] {
        for (before, others) in
            [("", 0), (GET, 1), (absolute, 1), (POST, 1), (&*GET.repeat(40), 40)]
        {
            let head = "GET /none HTTP/1.1\r\nHost: t\r\nA: ";
            let head = format!("{head}{}\r\n\r\n", "a".repeat(size - head.len() - 4));
            let said = format!("{before}{head}");
            let begin = before.len();
            let cuts = [0, 1, 20, 100, 8192, 16_384, ALLOWED - 1, ALLOWED].map(|at| begin + at);
            for at in cuts.into_iter().filter(|at| *at <= said.len()) {
                let (first, second) = said.as_bytes().split_at(at);
                for heard in pair.hear(&[first, second]) {
                    let count = |status: &str| heard.matches(&format!("HTTP/1.1 {status}")).count();
                    let refused = usize::from(status == 431);
                    let counts = [
                        count("200 OK"),
                        count("431 "),
                        heard.matches("connection: close").count(),
                    ];
                    let case = format!("{size} bytes behind {others}, cut at {at}");
                    assert_eq!(counts, [others + 1 - refused, refused, refused], "{case}");
                }
            }
        }
    }
}

/// Permitted differences between the two servers.
#[test]
fn known_differences_have_names() {
    let pair = Pair::start();
    let broken = b"POST /b HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\na";
    assert_eq!(pair.compare(&[broken]), Ok(vec![Known::CloseAfterBrokenBody]));
}

/// For its own error responses, hyper reads part of the body again, in several reads.
#[test]
fn a_client_cannot_tell_who_answers_a_long_body() {
    let pair = Pair::start();
    for target in ["/b", "/wait", "/unknown/parts", "/wait/unknown/long", "/close"] {
        for length in [3000, 8192, 12_000, 16_384, 40_000] {
            let said = format!("{}{GET}", post("POST", target, length));
            assert_eq!(pair.compare(&[said.as_bytes()]), Ok(vec![]), "{target} {length}");
        }
    }
}

#[test]
fn replies_are_dated_to_the_second() {
    let server = Running::start(builder(), Handlers::new().factory());
    let mut client = server.connect();
    for _ in 0..3 {
        let before = SystemTime::now();
        let answer = client.get("/hello");
        let date = httpdate::parse_http_date(answer.header("date").expect("a date"));
        let date = date.expect("a date of HTTP");
        let second = std::time::Duration::from_secs(1);
        assert!(date + second > before && date <= SystemTime::now(), "{date:?}, {before:?}");
    }
}

#[test]
fn a_body_that_is_shorter_than_announced_ends_its_connection_and_a_longer_one_is_cut() {
    let server = Running::start(builder(), |_lane| {
        tower::service_fn(async |request: Request<Incoming>| {
            let announced = if request.uri().path() == "/short" { 5 } else { 3 };
            let parts = ["ab", "cd"].map(|part| Bytes::from_static(part.as_bytes()));
            let body = Parts::announcing(parts.to_vec(), Some(announced));
            Ok::<_, Infallible>(Response::new(body))
        })
    });
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/long").text(), "abc", "and nothing of it is in the next reply");
    }
    client.send_get("/short");
    client.send(GET);
    let said = String::from_utf8(client.read_to_close()).expect("text");
    assert!(said.ends_with("abcd") && said.matches("HTTP/1.1").count() == 1, "{said}");
    server.wait_for_in_flight(0);
}

/// Bodies larger than the socket buffer, sent together with their heads.
#[test]
fn what_the_socket_does_not_take_at_once_is_sent_later() {
    const LENGTH: usize = 100_000;
    const REPLIES: usize = 300;
    let server = Running::start(builder(), |_lane| {
        tower::service_fn(async |_request: Request<Incoming>| {
            let body = Bytes::from_static(&[b'x'; LENGTH]);
            Ok::<_, Infallible>(Response::new(Full::from(body)))
        })
    });
    let mut client = server.connect();
    client.send(GET.repeat(REPLIES));
    let family = "corelane_requests_total{lane=\"0\",route=\"other\",method=\"GET\"";
    let answered = || {
        let text = server.admin_get("/metrics").text();
        let line = text.lines().find(|line| line.starts_with(family)).map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).unwrap_or(0)
    };
    let (mut last, mut same) = (0, 0);
    server.wait_until("full", || {
        let now = answered();
        same = if now == last && now > 0 { same + 1 } else { 0 };
        last = now;
        same == 20
    });
    assert!(last < REPLIES, "the client has read nothing");
    for _ in 0..REPLIES {
        assert_eq!(client.read_answer().body.len(), LENGTH);
    }
    server.wait_for_in_flight(0);
}

#[test]
fn a_head_at_its_limits_is_answered_and_beyond_them_refused() {
    let limits = Limits { headers: 10, header_bytes: 8192, uri_bytes: 100, ..Limits::default() };
    let server = Running::start(builder().limits(limits), Handlers::new().factory());
    let ask = |target: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n{fields}\r\n"));
        client.read_answer().status
    };
    let target = |length: usize| format!("/{}", "a".repeat(length - 1));
    assert_eq!((ask(&target(100), ""), ask(&target(101), "")), (200, 414));
    assert_eq!((ask("/", &"a: b\r\n".repeat(9)), ask("/", &"a: b\r\n".repeat(10))), (200, 431));
    // The overhead is 25 bytes in other lines, 5 bytes around the value, and the empty line.
    let field = |whole: usize| format!("a: {}\r\n", "b".repeat(whole - 32));
    assert_eq!((ask("/", &field(8192)), ask("/", &field(8193))), (200, 431));
}

const SOON: Duration = Duration::from_millis(100);

/// Echoes or ignores the body, with a chunked response.
fn chunked(builder: Builder) -> Running {
    Running::start(builder, |_lane| {
        tower::service_fn(async |request: Request<Incoming>| {
            let ignores = request.uri().path() == "/ignore";
            let body = request.into_body();
            let text = if ignores { Bytes::new() } else { body.collect().await?.to_bytes() };
            let mut reply = Response::new(Parts::announcing(vec![text], None));
            reply.headers_mut().insert("connection", HeaderValue::from_static("keep-alive"));
            Ok::<_, BodyError>(reply)
        })
    })
}

const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Only the plain path parks connections, so it served these requests.
#[test]
fn a_body_in_pieces_and_a_reply_in_chunks_stay_on_the_plain_path() {
    let server = chunked(builder().park_after(Some(SOON)));
    let mut client = server.connect();
    for piece in ["POST /echo HTTP/1.1\r\nHo", "st: t\r\nContent-Length: 4\r\n\r\n", "ab", "cd"] {
        client.send(piece);
    }
    let said = client.read_until(LAST_CHUNK);
    assert!(
        said.contains("transfer-encoding: chunked\r\n") && said.contains("\r\n4\r\nabcd\r\n"),
        "{said}"
    );
    server.wait_for_parked(1);
}

#[test]
fn a_connection_that_hyper_serves_is_not_parked() {
    let server = chunked(builder().park_after(Some(SOON)));
    let mut fast = server.connect();
    let mut slow = server.connect();
    slow.send(
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    );
    slow.read_until(LAST_CHUNK);
    for _ in 0..5 {
        slow.send("GET /ignore HTTP/1.1\r\nHost: t\r\n\r\n");
        slow.read_until(b"0\r\n\r\n");
    }
    fast.send("GET /ignore HTTP/1.1\r\nHost: t\r\n\r\n");
    fast.read_until(b"0\r\n\r\n");
    // The later connection is parked, but the earlier one is not.
    server.wait_for_parked(1);
    server.wait_for_connections(2);
    drop(fast);
    server.wait_for_parked(0);
    server.wait_for_connections(1);
}

/// The rest of a body is discarded if it is short. Otherwise, the connection closes (RFC 9112
/// section 9.3).
#[test]
fn a_body_that_its_handler_ignores_ends_the_connection_only_if_it_is_large() {
    let server = chunked(builder().park_after(Some(SOON)));
    for (length, closes) in [(60_000, false), (600_000, true)] {
        let mut client = server.connect();
        client
            .send(format!("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n"));
        let said = client.read_until(b"0\r\n\r\n");
        assert_eq!(said.contains("connection: close\r\n"), closes, "{said}");
        assert_eq!(said.contains("connection: keep-alive\r\n"), !closes, "{said}");
        if closes {
            assert!(client.read_to_close().is_empty());
        } else {
            client.send("a".repeat(length));
            client.send("GET /ignore HTTP/1.1\r\nHost: t\r\n\r\n");
            client.read_until(b"0\r\n\r\n");
        }
    }
}

/// The header timeout applies to heads only: clients may pause for longer inside or after the
/// discarded rest of a body.
#[rstest]
fn a_body_that_its_handler_ignores_does_not_begin_a_header(
    #[values(Way::Plain, Way::Hyper)] way: Way,
) {
    let timeouts =
        Timeouts { header: Duration::from_millis(500), idle: DISTANT, ..Timeouts::default() };
    let server = chunked(way.builder().timeouts(timeouts));
    let mut client = server.connect();
    client.send("POST /ignore HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\n");
    client.read_until(LAST_CHUNK);
    for part in ["ab", "cd"] {
        client.send(part);
        // Its deadline is no earlier than the deadline of a header started with these bytes.
        assert!(server.connect().read_to_close().is_empty());
    }
    client.send("GET /ignore HTTP/1.1\r\nHost: t\r\n\r\n");
    client.read_until(LAST_CHUNK);
}
