//! Requests that arrive before the previous response was sent.

use std::convert::Infallible;
use std::io::Read;
use std::sync::mpsc;

use crate::support::{
    BIG, PATIENCE, Running, TestService, Way,
    Way::{Hyper, Plain},
    big, builder,
};
use bytes::Bytes;
use corelane::{Incoming, Lane, Limits};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use rstest::rstest;
use tokio::task::spawn_local;
use tower::util::BoxCloneSyncService;

/// 30 MB of responses, more than the kernel buffers.
const REPLIES: usize = 1000;
const LENGTH: usize = 30_000;

#[rstest]
fn a_client_that_reads_late_gets_every_reply(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().routes(["/"]), |_lane| {
        tower::service_fn(|request: Request<Incoming>| async move {
            tokio::task::yield_now().await;
            drop(request);
            Ok::<_, Infallible>(Response::new(Full::from(Bytes::from_static(&[b'x'; LENGTH]))))
        })
    });
    let family = "corelane_requests_total{lane=\"0\",route=\"/\",method=\"POST\"";
    let answered = || server.metric(&format!("{family},code=\"200\"}}"));
    let mut client = server.connect();
    let post = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n0123456789";
    client.send(post);
    assert_eq!(client.read_answer().status, 200);
    client.send(post.repeat(REPLIES));
    // Repeats until the count is stable, which means that the socket is full.
    let (mut last, mut same) = (0.0, 0);
    server.wait_until("full", || {
        let now = answered();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == 20
    });
    for _ in 0..REPLIES {
        let answer = client.read_answer();
        assert_eq!((answer.status, answer.body.len()), (200, LENGTH));
    }
    server.wait_for_in_flight(0);
}

#[rstest]
fn a_body_that_nobody_reads_does_not_end_its_connection(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane| {
        // Drops the request before polling its future.
        tower::service_fn(|request: Request<Incoming>| {
            drop(request);
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("unread"))) }
        })
    });
    let mut client = server.connect();
    let body = "x".repeat(3000);
    for _ in 0..10 {
        client.send(format!("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3000\r\n\r\n{body}"));
        let answer = client.read_answer();
        assert_eq!((answer.text().as_str(), answer.header("connection")), ("unread", None));
    }
}

#[rstest]
fn a_body_that_is_read_after_the_reply_has_an_end(#[values(Plain, Hyper)] way: Way) {
    let (read, bodies) = mpsc::channel();
    let server = Running::start(way.builder(), move |_lane| {
        let read = read.clone();
        tower::service_fn(move |request: Request<Incoming>| {
            let read = read.clone();
            spawn_local(async move {
                let body = request.into_body().collect().await;
                let _ = read.send(body.map(|body| body.to_bytes()).map_err(|e| e.to_string()));
            });
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("later"))) }
        })
    });
    let mut client = server.connect();
    let known = ("Content-Length: 10\r\n\r\n01234", "56789");
    let chunks = ("Transfer-Encoding: chunked\r\n\r\n5\r\n01234", "\r\n5\r\n56789\r\n0\r\n\r\n");
    for (first, rest) in [known, chunks] {
        client.send(format!("POST / HTTP/1.1\r\nHost: t\r\n{first}"));
        assert_eq!(client.read_answer().text(), "later");
        client.send(rest);
        let body = bodies.recv_timeout(PATIENCE).expect("its end, without another request");
        assert_eq!(body.as_deref(), Ok(&b"0123456789"[..]));
    }
}

/// hyper remembers the refused upgrade and, at the end of the connection, drops buffered bytes.
#[rstest]
fn the_last_reply_is_whole_though_an_upgrade_was_refused_before(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), big);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: t\r\nConnection: upgrade\r\nUpgrade: shell\r\n\r\n");
    assert_eq!(client.read_answer().body.len(), BIG);
    // A large unread body closes the connection.
    client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\n");
    let answer = client.read_answer();
    assert_eq!((answer.status, answer.body.len()), (200, BIG));
    assert_eq!(client.socket.read(&mut [0]).expect("no reset"), 0);
}

#[rstest]
fn a_chunked_body_that_nobody_reads_may_come_after_the_reply(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), unread);
    let mut client = server.connect();
    for _ in 0..3 {
        client.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        let answer = client.read_answer();
        assert_eq!((answer.status, answer.closes()), (200, false));
        client.send("3e8\r\n");
        client.send("x".repeat(1000));
        client.send("\r\n0\r\n\r\n");
    }
    assert_eq!(client.get("/").status, 200);
}

#[rstest]
fn a_reply_announces_the_end_where_the_unread_body_is_large(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), unread);
    // The result does not depend on how much of the body arrives with the head.
    for (length, closes) in [(60_000, false), (70_000, true), (1_000_000, true)] {
        for with_head in [0, 10_000, 50_000] {
            let mut client = server.connect();
            // The first read of a connection is small.
            assert_eq!(client.get("/").status, 200);
            let head = format!("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
            client.send([head.as_bytes(), &vec![b'x'; with_head]].concat());
            let answer = client.read_answer();
            let case = format!("{with_head} of {length}");
            assert_eq!((answer.status, answer.closes()), (200, closes), "{case}");
            if closes {
                assert!(client.read_to_close().is_empty(), "{case}");
            }
        }
    }
}

fn unread(_lane: &Lane) -> TestService {
    BoxCloneSyncService::new(tower::service_fn(|request: Request<Incoming>| {
        drop(request);
        async { Ok(Response::new(Full::<Bytes>::from("unread"))) }
    }))
}

const TRAILERS: &str = "HTTP/1.1\r\nHost: t\r\nTE: trailers\r\n\r\n";

#[test]
fn the_reply_to_a_refused_get_has_a_body_whatever_came_before() {
    let server = Running::start(builder(), big);
    for before in ["HEAD", "GET"] {
        let mut client = server.connect();
        client.send(format!("{before} / {TRAILERS}GET / HT"));
        match before {
            "HEAD" => client.read_head_answer(),
            _ => client.read_answer(),
        };
        client.send("TP/1.1\r\nbad\r\n\r\n");
        let answer = client.read_answer();
        assert_eq!(answer.status, 400, "behind a {before}");
        assert!(answer.text().contains("not valid HTTP/1.1"), "behind a {before}: {answer:?}");
    }
    let mut client = server.connect();
    client.send(format!("GET / {TRAILERS}HEAD / HT"));
    client.read_answer();
    client.send("TP/1.1\r\nbad\r\n\r\n");
    assert_eq!(client.read_head_answer().status, 400);
    assert!(client.read_to_close().is_empty(), "no body for a HEAD");
}

#[rstest]
fn a_head_behind_another_request_has_the_same_limit(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { header_bytes: 8192, ..Limits::default() };
    let server = Running::start(way.builder().limits(limits), big);
    let mut client = server.connect();
    let large = format!("GET / HTTP/1.1\r\nHost: t\r\nX: {}\r\n\r\n", "x".repeat(9000));
    client.send(format!("GET / {TRAILERS}{large}"));
    assert_eq!(client.read_answer().status, 200);
    assert_eq!(client.read_answer().status, 431);
}

#[rstest]
fn what_follows_the_last_request_of_a_client_costs_no_reply(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), unread);
    for fields in ["", "TE: trailers\r\n"] {
        let get = format!("GET / HTTP/1.1\r\nHost: t\r\n{fields}");
        let last = format!("{get}Connection: close\r\n\r\n");
        let mut client = server.connect();
        client.send(format!("{get}\r\n").repeat(30) + &last + &format!("{get}\r\n").repeat(900));
        // All responses are written and the write side is closed before the client reads.
        server.wait_for_in_flight(0);
        for _ in 0..30 {
            assert!(!client.read_answer().closes());
        }
        assert!(client.read_answer().closes());
        assert!(client.read_to_close().is_empty());
    }
}
