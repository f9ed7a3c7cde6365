//! Limits on the size of what clients send.

use std::net::Shutdown;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use bytes::Bytes;
use corelane::{Error, Lane, Limits, Server};
use http_body_util::BodyExt;

use super::{wait_until_freed, with_limits};
use crate::support::{
    Client, Handlers, Running, Way,
    Way::{Hyper, Plain},
};
use rstest::rstest;

#[rstest]
fn too_many_or_too_large_headers_are_answered_431(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) =
        with_limits(way, Limits { headers: 10, header_bytes: 8192, ..Limits::default() });
    let request = |headers: &str| format!("GET / HTTP/1.1\r\nHost: test\r\n{headers}\r\n");
    let ask = |headers: &str| {
        let mut client = server.connect();
        client.send(request(headers));
        client.read_answer().status
    };
    assert_eq!(ask(&"a: b\r\n".repeat(9)), 200);
    assert_eq!(ask(&"a: b\r\n".repeat(10)), 431);
    assert_eq!(ask(&format!("a: {}\r\n", "b".repeat(7000))), 200);
    assert_eq!(ask(&format!("a: {}\r\n", "b".repeat(9000))), 431);
    server.wait_until("counted", || server.refused("header_too_large") == 2.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_long_target_is_answered_414(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = with_limits(way, Limits { uri_bytes: 100, ..Limits::default() });
    assert_eq!(server.get(&format!("/{}", "a".repeat(99))).status, 200);
    let answer = server.get(&format!("/{}", "a".repeat(100)));
    assert_eq!(answer.status, 414);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("urn:corelane:problem:uri-too-long"));
    assert_eq!(server.refused_requests("uri_too_long"), 1.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_large_body_is_answered_413(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = with_limits(way, Limits { body_bytes: 10, ..Limits::default() });
    let post = |framing: &str| {
        let mut client = server.connect();
        client.send(format!("POST /echo HTTP/1.1\r\nHost: test\r\n{framing}"));
        client.read_answer()
    };
    let echoed = post("Content-Length: 10\r\n\r\n0123456789");
    assert_eq!((echoed.status, echoed.text().as_str()), (200, "0123456789"));
    assert_eq!(post("Content-Length: 11\r\n\r\n").status, 413, "before the body is sent");
    let chunk = "Transfer-Encoding: chunked\r\n\r\n6\r\n012345\r\n";
    assert_eq!(post(&format!("{chunk}0\r\n\r\n")).status, 200);
    let answer = post(&format!("{chunk}6\r\n012345\r\n0\r\n\r\n"));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("10 bytes"), "{answer:?}");
    assert_eq!(server.refused_requests("body_too_large"), 2.0);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_large_body_is_answered_413_whatever_its_handler_makes_of_it(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let server = Running::start(way.builder().limits(limits), |_lane: &Lane| {
        let length = async |body: Bytes| body.len().to_string();
        Router::new().route("/", post(length)).route("/panic", post(panics))
    });
    for target in ["/", "/panic"] {
        let send = |chunks: &str| {
            let mut client = server.connect();
            let framing = "Transfer-Encoding: chunked";
            client.send(format!("POST {target} HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n{chunks}"));
            client.read_answer()
        };
        let small = send("6\r\n012345\r\n0\r\n\r\n");
        assert_eq!((small.status, small.text().as_str()), (200, "6"));
        let large = send("6\r\n012345\r\n6\r\n012345\r\n0\r\n\r\n");
        assert_eq!(large.status, 413, "{large:?}");
        assert_eq!(large.header("content-type"), Some("application/problem+json"));
        assert!(large.text().contains("urn:corelane:problem:body-too-large"), "{large:?}");
    }
    assert_eq!(server.refused_requests("body_too_large"), 2.0);
}

/// Panics on a body error.
async fn panics(body: Body) -> String {
    body.collect().await.expect("a whole body").to_bytes().len().to_string()
}

#[rstest]
fn one_connection_too_many_is_answered_503_and_the_next_is_welcome_again(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, handlers) = with_limits(way, Limits { connections: 2, ..Limits::default() });
    let (mut one, mut two) = (server.connect(), server.connect());
    assert_eq!((one.get("/hello").status, two.get("/hello").status), (200, 200));

    let mut third = server.connect();
    let answer = third.read_answer();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.closes());
    assert!(third.read_to_close().is_empty());
    assert_eq!(server.refused("limit"), 1.0);

    drop(one);
    server.wait_for_connections(1);
    assert_eq!(server.get("/hello").status, 200);
    drop(two);
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn of_many_connections_too_many_some_are_told_and_all_are_closed(#[values(Plain, Hyper)] way: Way) {
    // Far more clients than one turn answers, so that a pause does not let all of them through.
    const MANY: usize = 256;
    let (server, _handlers) = with_limits(way, Limits { connections: 1, ..Limits::default() });
    let mut kept = server.connect();
    assert_eq!(kept.get("/hello").status, 200);
    let refused: Vec<_> = (0..MANY).map(|_| server.connect()).collect();
    server.wait_until("refused", || server.refused("limit") == MANY as f64);
    let answers = refused.into_iter().map(|mut client| client.read_to_close());
    let (told, silent): (Vec<_>, Vec<_>) = answers.partition(|answer| !answer.is_empty());
    assert!(told.len() >= 32 && !silent.is_empty(), "{} and {}", told.len(), silent.len());
    for answer in told {
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
        assert!(head.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{answer}");
        assert!(body.contains("urn:corelane:problem:service-unavailable"), "{answer}");
    }
    assert_eq!(kept.get("/hello").status, 200);
}

#[rstest]
fn a_refused_upload_is_told_why(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = with_limits(way, Limits { body_bytes: 10, ..Limits::default() });
    let body = vec![0; 4 << 20];
    for _ in 0..20 {
        let mut client = server.connect();
        let length = body.len();
        client.send(format!("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n"));
        client.send(&body);
        client.socket.shutdown(Shutdown::Write).expect("half a close");
        assert!(client.read_to_close().starts_with(b"HTTP/1.1 413"));
    }
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn settings_out_of_bounds_are_refused_by_name(#[values(Plain, Hyper)] way: Way) {
    let wrong = [
        (Limits { header_bytes: 100, ..Limits::default() }, "limits.header_bytes"),
        (Limits { connections: 0, ..Limits::default() }, "limits.connections"),
        (Limits { headers: 0, ..Limits::default() }, "limits.headers"),
    ];
    for (limits, name) in wrong {
        let error = way.builder().limits(limits).build().expect_err(name);
        assert!(error.is_setting() && error.to_string().contains(name), "{error}");
    }
    let greedy = Limits { connections: 1 << 40, ..Limits::default() };
    let error = way.builder().limits(greedy).build().expect_err("more than the process may open");
    assert!(matches!(error, Error::FileLimit { .. }), "{error}");
}

#[rstest]
fn an_address_in_use_is_refused_even_if_its_holder_shares_it(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let second = Server::builder().bind(server.address).signals(false);
    let error = second.build().expect_err("the port is taken");
    assert!(matches!(error, Error::Bind { address, .. } if address == server.address), "{error}");
    assert_eq!(Client::connect(server.address).get("/hello").status, 200);
}
