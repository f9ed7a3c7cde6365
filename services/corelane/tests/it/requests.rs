//! Basics: protocols, failing handlers, lanes, metrics.

use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::task::Poll;

use crate::support::{
    BIG, Handlers, Running, Way,
    Way::{Hyper, Plain},
    big,
    worker::{http2, with_worker},
};
use bytes::Bytes;
use corelane::{Incoming, Lanes, Limits};
use futures_util::stream;
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use rstest::rstest;

#[rstest]
fn a_connection_carries_many_requests(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder().routes(["/hello"]), Handlers::new().factory());
    let mut client = server.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/hello").text(), "hello");
    }
    // Pipelined requests are answered in order (RFC 9112 section 9.3.2).
    client.send("GET /hello HTTP/1.1\r\nHost: t\r\n\r\nPOST /echo HTTP/1.1\r\nHost: t\r\n");
    client.send("Content-Length: 4\r\n\r\nlast");
    assert_eq!(client.read_answer().text(), "hello");
    assert_eq!(client.read_answer().text(), "last");

    assert_eq!(server.metric("corelane_connections_accepted_total{lane=\"0\"}"), 1.0);
    let requests =
        "corelane_requests_total{lane=\"0\",route=\"/hello\",method=\"GET\",code=\"200\"}";
    assert_eq!(server.metric(requests), 101.0);
    let other = "corelane_requests_total{lane=\"0\",route=\"other\",method=\"POST\",code=\"200\"}";
    assert_eq!(server.metric(other), 1.0);
    let count = "corelane_request_duration_seconds_count{lane=\"0\",route=\"/hello\"}";
    assert_eq!(server.metric(count), 101.0);
}

#[rstest]
fn head_has_the_fields_of_get_and_no_body(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let mut client = server.connect();
    client.send("HEAD /hello HTTP/1.1\r\nHost: test\r\n\r\n");
    let head = client.read_head_answer();
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    assert_eq!(client.get("/hello").text(), "hello", "no byte of a body is in between");
}

#[rstest]
fn http11_needs_exactly_one_host(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let ask = |request: &str| {
        let mut client = server.connect();
        client.send(request);
        client.read_answer().status
    };
    assert_eq!(ask("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(ask("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
    assert_eq!(ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 200);
    assert_eq!(ask("GET / HTTP/1.0\r\n\r\n"), 200);
    assert_eq!(server.refused_requests("invalid"), 2.0);
}

#[rstest]
fn http2_needs_a_host_that_means_one_thing(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    with_worker(async {
        let (mut client, _) = http2(&server).await;
        for (target, hosts, expected) in [
            ("http://t/hello", &[][..], 200),
            ("http://t:80/hello", &["T:80"], 200),
            ("http://t/hello", &["u"], 400),
            ("http://t/hello", &["t", "t"], 400),
            ("http://me@t/hello", &[], 400),
            ("http://me@t/hello", &["me@t"], 400),
        ] {
            let mut request = Request::get(target);
            for host in hosts {
                request = request.header("host", *host);
            }
            let request = request.body(()).expect("a request");
            let (reply, _) = client.send_request(request, true).expect("sent");
            let status = reply.await.expect("a reply").status().as_u16();
            assert_eq!(status, expected, "{target} {hosts:?}");
        }
    });
}

#[rstest]
fn http2_works_without_tls_by_prior_knowledge(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    with_worker(async {
        let (mut client, _) = http2(&server).await;
        for (method, length) in [("GET", 5), ("HEAD", 0)] {
            let request = Request::builder().method(method).uri("http://test/hello").body(());
            let (reply, _) = client.send_request(request.expect("a request"), true).expect("sent");
            let reply = reply.await.expect("a reply");
            assert_eq!(
                (reply.status().as_u16(), &reply.headers()["content-length"]),
                (200, &"5".parse().expect("a value"))
            );
            let mut body = reply.into_body();
            let mut received = 0;
            while let Some(data) = body.data().await {
                received += data.expect("data").len();
            }
            assert_eq!(received, length, "{method}");
        }
    });
}

#[rstest]
fn a_panic_is_one_requests_500(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let mut client = server.connect();
    let answer = client.get("/panic");
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(client.get("/hello").status, 200, "the same connection and lane go on");
    assert_eq!(server.metric("corelane_panics_total{lane=\"0\"}"), 1.0);
}

#[rstest]
fn a_panic_in_the_body_of_a_reply_is_counted(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane| {
        tower::service_fn(|_request: Request<Incoming>| async {
            let parts = stream::poll_fn(|_| -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
                panic!("in the body")
            });
            Ok::<_, Infallible>(Response::new(StreamBody::new(parts)))
        })
    });
    let mut client = server.connect();
    client.send_get("/");
    client.read_to_close();
    assert_eq!(server.metric("corelane_panics_total{lane=\"0\"}"), 1.0);
}

#[rstest]
fn a_broken_request_body_is_the_clients_fault(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(client.read_answer().status, 400);

    let mut leaving = server.connect();
    leaving.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nabc");
    server.wait_for_in_flight(1);
    drop(leaving);
    server.wait_for_in_flight(0);
    assert!(!server.admin_get("/metrics").text().contains("code=\"500\""));
}

#[rstest]
fn head_announces_no_length_where_get_has_no_body(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane| {
        tower::service_fn(|request: Request<Incoming>| async move {
            let reply = Response::builder().status(&request.uri().path()[1..]);
            reply.body(Full::<Bytes>::default())
        })
    });
    for status in ["204", "304"] {
        let mut client = server.connect();
        client.send(format!("HEAD /{status} HTTP/1.1\r\nHost: test\r\n\r\n"));
        let head = client.read_head_answer();
        assert_eq!(head.status.to_string(), status);
        assert_eq!(head.header("content-length"), None, "RFC 9110 section 8.6");
    }
}

#[rstest]
fn what_is_refused_before_it_is_a_request_is_counted(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let host = "Host: t\r\n";
    for (head, status, reason, count) in [
        ("not http\r\n\r\n".to_owned(), 400, "bad_request", 1.0),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200)), 431, "header_too_large", 1.0),
        (format!("GET / HTTP/1.1\n{host}\r\n"), 400, "ambiguous_framing", 1.0),
        (
            format!(
                "POST / HTTP/1.1\r\n{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
            ),
            400,
            "ambiguous_framing",
            2.0,
        ),
    ] {
        let mut client = server.connect();
        client.send(&head);
        let answer = client.read_answer();
        assert_eq!(answer.status, status, "{head}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{head}");
        assert!(answer.closes() && client.read_to_close().is_empty(), "{head}");
        // Some rejections are counted only after both sides have closed the connection.
        drop(client);
        let refused =
            format!("corelane_connections_refused_total{{lane=\"0\",reason=\"{reason}\"}}");
        server.wait_until("counted", || server.metric(&refused) == count);
    }
    let requests = server.admin_get("/metrics").text();
    assert!(!requests.contains("corelane_requests_total{"), "none is a request: {requests}");
}

#[rstest]
fn a_refused_head_behind_a_large_reply_is_answered_after_it(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), big);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\nGET / HTTP/1.1\r\nHost : t\r\n\r\n");
    assert_eq!(client.read_answer().body.len(), BIG);
    let answer = client.read_answer();
    assert_eq!((answer.status, answer.closes()), (400, true));
    assert!(answer.text().contains("urn:corelane:problem:bad-request"));
    assert!(client.read_to_close().is_empty());
}

#[rstest]
fn a_head_may_end_anywhere_before_it_is_refused(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let head =
        "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n";
    let clients: Vec<_> = (1..head.len())
        .map(|at| {
            let mut client = server.connect();
            client.send(&head[..at]);
            client
        })
        .collect();
    // The connection has been accepted, so its next bytes are read separately.
    let open = "corelane_connections{lane=\"0\"}";
    server.wait_until("all open", || server.metric(open) >= clients.len() as f64);
    for (at, mut client) in (1..).zip(clients) {
        client.send(&head[at..]);
        let answer = client.read_answer();
        assert!(answer.text().contains("ambiguous-framing"), "in two parts at {at}: {answer:?}");
        assert!(client.read_to_close().is_empty());
    }
}

#[rstest]
fn every_reply_names_its_replica(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { body_bytes: 10, uri_bytes: 10, ..Limits::default() };
    let named = way.builder().limits(limits).replica(HeaderValue::from_static("one"));
    let server = Running::start(named, Handlers::new().factory());
    let host = "Host: t\r\n";
    for (request, status) in [
        (format!("GET /hello HTTP/1.1\r\n{host}\r\n"), 200),
        (format!("GET /panic HTTP/1.1\r\n{host}\r\n"), 500),
        (format!("GET /a-long-target HTTP/1.1\r\n{host}\r\n"), 414),
        (format!("POST /echo HTTP/1.1\r\n{host}Content-Length: 11\r\n\r\n"), 413),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("not http\r\n\r\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(200)), 431),
    ] {
        let mut client = server.connect();
        client.send(&request);
        let answer = client.read_answer();
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.header("corelane-replica"), Some("one"), "{request}");
        assert_eq!(answer.header("corelane-lane"), Some("0"), "{request}");
    }
}

#[rstest]
fn an_error_of_the_service_does_not_leak(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), Handlers::new().factory());
    let answer = server.get("/error");
    assert_eq!(answer.status, 500);
    assert!(!answer.text().contains("secret"), "{answer:?}");
}

#[rstest]
fn a_service_may_hold_what_is_not_send(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), |_lane| {
        let count = Rc::new(Cell::new(0));
        tower::service_fn(move |_request: Request<Incoming>| {
            count.set(count.get() + 1);
            let reply = Response::new(Full::<Bytes>::from(count.get().to_string()));
            async move { Ok::<_, Infallible>(reply) }
        })
    });
    let mut client = server.connect();
    let answers: Vec<_> = (0..3).map(|_| client.get("/").text()).collect();
    assert_eq!(answers, ["1", "2", "3"]);
}

#[test]
fn an_axum_router_is_a_service() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let server = corelane::Server::builder().bind(address).signals(false).lanes(Lanes::Count(1));
    let server = server.build().expect("the server starts");
    let (address, handle) = (server.local_addr().expect("an address"), server.handle());
    let thread = std::thread::spawn(move || {
        server.serve(|_lane| {
            let greet = |axum::extract::Path(name): axum::extract::Path<String>| async move {
                format!("hello, {name}")
            };
            axum::Router::new().route("/greet/{name}", axum::routing::get(greet))
        })
    });
    let mut client = crate::support::Client::connect(address);
    client.send("GET /greet/axum HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(client.read_answer().text(), "hello, axum");
    assert_eq!(client.get("/none").status, 404);
    handle.stop();
    assert_eq!(crate::support::end_of(thread).expect("an end").cut, 0);
}

/// The calling thread's CPU affinity, in the kernel's format (proc(5)).
fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("a list").trim().to_owned()
}

#[rstest]
fn each_lane_is_pinned_to_its_own_cpu_and_the_admin_thread_to_none(
    #[values(Plain, Hyper)] way: Way,
) {
    let server = Running::start(way.builder().lanes(Lanes::Auto).pin(corelane::Pin::On), |lane| {
        let told = lane.cpu().map(|cpu| cpu.to_string()).unwrap_or_default();
        let text = format!("{} {told} {}", lane.index(), allowed_cpus());
        tower::service_fn(move |_request: Request<Incoming>| {
            let reply = Response::new(Full::<Bytes>::from(text.clone()));
            async move { Ok::<_, Infallible>(reply) }
        })
    });
    let lanes = server.admin_get("/metrics").text().matches("corelane_lane_info{").count();
    // Lanes are chosen by hash, so the test connects until every lane has answered.
    let mut seen = HashMap::new();
    server.wait_until("answered by every lane", || {
        let answer = server.get("/").text();
        let [lane, told, allowed] = answer.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{answer}");
        };
        assert_eq!(told, allowed, "lane {lane} runs where it was told");
        seen.insert(lane.to_owned(), told.to_owned());
        seen.len() == lanes
    });
    let mut cpus: Vec<_> = seen.values().collect();
    cpus.sort();
    cpus.dedup();
    assert_eq!(cpus.len(), lanes, "no two lanes share a CPU: {seen:?}");

    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let admin: Vec<String> = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\tadmin\n"))
        .collect();
    let whole = format!("Cpus_allowed_list:\t{}\n", allowed_cpus());
    assert!(!admin.is_empty() && admin.iter().all(|status| status.contains(&whole)), "{admin:?}");
}

#[rstest]
fn a_factory_that_panics_ends_the_server_with_an_error(#[values(Plain, Hyper)] way: Way) {
    let server = way.builder().build().expect("the server starts");
    let ended = crate::support::end_of(std::thread::spawn(move || {
        server.serve(|lane| {
            assert!(lane.index() > 0, "a factory that panics");
            tower::service_fn(|_request: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
            })
        })
    }));
    assert!(matches!(&ended, Err(corelane::Error::Factory { lane: 0, .. })), "{ended:?}");
}
