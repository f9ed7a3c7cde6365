//! Error responses to gRPC clients.

use std::convert::Infallible;

use bytes::Bytes;
use corelane::{Incoming, Limits, Problem, Timeouts};
use h2::client::SendRequest;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use rstest::rstest;

use super::http2::with_client;
use super::{BRIEF, start, wait_until_freed};
use crate::support::{
    Running, Way,
    Way::{Hyper, Plain},
    builder,
};

fn call(path: &str) -> Request<()> {
    let request = Request::post(format!("http://test{path}"));
    request.header("content-type", "application/grpc+proto").body(()).expect("a request")
}

/// A trailers-only response.
async fn trailers_only(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: usize,
) -> HeaderMap {
    let (reply, mut stream) = client.send_request(request, false).expect("sent");
    // This call fails if the server has already responded and reset the stream.
    let _ = stream.send_data(vec![b'x'; body].into(), false);
    let (head, body) = reply.await.expect("a reply").into_parts();
    assert_eq!(head.status, StatusCode::OK);
    assert!(body.is_end_stream(), "{head:?}");
    head.headers
}

fn told(headers: &HeaderMap) -> [&str; 3] {
    ["content-type", "grpc-status", "grpc-message"]
        .map(|name| headers.get(name).map_or("", |value| value.to_str().expect("text")))
}

#[test]
fn a_refused_call_has_a_status_and_a_message() {
    let limits = Limits { body_bytes: 1000, header_bytes: 8192, ..Limits::default() };
    let body = Timeouts { body: BRIEF, ..Timeouts::default() };
    let request = Timeouts { request: BRIEF, ..Timeouts::default() };
    let failed = ["13", "Internal Server Error"];
    // Path, body size, field size, expected response, and the problem it counts as.
    let cases = [
        (
            Timeouts::default(),
            "/echo",
            1001,
            0,
            413,
            ["8", "a request body may have at most 1000 bytes"],
        ),
        (body, "/echo", 1, 0, 408, ["4", "timed out waiting for the request body"]),
        (request, "/gate", 0, 0, 503, ["4", "the request took longer than the server allows"]),
        (Timeouts::default(), "/error", 0, 0, 500, failed),
        (Timeouts::default(), "/panic", 0, 0, 500, failed),
        (
            Timeouts::default(),
            "/",
            0,
            9000,
            431,
            ["8", "a header list may have at most 8192 bytes, counting 32 for each field"],
        ),
    ];
    for (timeouts, path, bytes, field, counted, [code, message]) in cases {
        let (server, handlers) = start(Plain, limits.clone(), timeouts);
        with_client(&server, |mut client| async move {
            let mut request = call(path);
            request.headers_mut().insert("a", "x".repeat(field).parse().expect("a value"));
            let headers = trailers_only(&mut client, request, bytes).await;
            assert_eq!(told(&headers), ["application/grpc", code, message]);
            assert!(!headers.contains_key("grpc-retry-pushback-ms"), "{headers:?}");
        });
        wait_until_freed(&server, &handlers);
        let family = "corelane_requests_total{lane=\"0\",route=\"other\",method=\"POST\"";
        assert_eq!(server.metric(&format!("{family},code=\"{counted}\"}}")), 1.0);
    }
}

#[test]
fn a_call_that_is_shed_may_be_repeated_and_is_told_when() {
    let limits = Limits { slots: 1, queue: 0, ..Limits::default() };
    let (server, handlers) = start(Plain, limits, Timeouts::default());
    let (running, gate) = (&server, &handlers.gate);
    with_client(&server, |mut client| async move {
        let (first, _) = client.send_request(call("/gate"), true).expect("sent");
        running.wait_for_in_flight(1);
        let shed = trailers_only(&mut client, call("/"), 0).await;
        let detail = "too many requests are queued to answer this one in time";
        assert_eq!(told(&shed), ["application/grpc", "14", detail]);
        assert_eq!(shed["corelane-not-started"], "1");
        let pushback = shed["grpc-retry-pushback-ms"].to_str().expect("text");
        assert!(pushback.parse::<u64>().expect("a number") >= 1000, "{shed:?}");
        gate.add_permits(1);
        assert_eq!(first.await.expect("a reply").status(), StatusCode::OK);
    });
    wait_until_freed(&server, &handlers);
}

#[rstest]
fn a_call_of_grpc_web_is_told_in_its_head(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let timeouts = Timeouts { request: BRIEF, ..Timeouts::default() };
    let (server, _handlers) = start(way, limits, timeouts);
    let kinds = [
        ("application/grpc-web", Some("application/grpc-web")),
        ("application/grpc-web+proto", Some("application/grpc-web")),
        ("application/grpc-web-text", Some("application/grpc-web-text")),
        ("Application/GRPC-Web-Text+proto", Some("application/grpc-web-text")),
        ("application/grpc;a=b", Some("application/grpc")),
        ("application/grpcs", None),
        ("application/json", None),
    ];
    for (sent, answered) in kinds {
        for (path, length, code, status) in [("/gate", 1, "4", 503), ("/echo", 11, "8", 413)] {
            let mut client = server.connect();
            let head = format!("POST {path} HTTP/1.1\r\nHost: t\r\nContent-Type: {sent}\r\n");
            client.send(format!("{head}Content-Length: {length}\r\n\r\n{}", "x".repeat(length)));
            let answer = client.read_answer();
            let case = format!("{sent} {path}: {answer:?}");
            match answered {
                Some(kind) => {
                    assert_eq!((answer.status, answer.text().as_str()), (200, ""), "{case}");
                    assert_eq!(answer.header("content-type"), Some(kind), "{case}");
                    assert_eq!(answer.header("grpc-status"), Some(code), "{case}");
                }
                None => assert_eq!(answer.status, status, "{case}"),
            }
        }
    }
}

/// Problems from handlers and from surrounding layers are treated alike.
#[test]
fn a_problem_of_the_service_is_told_to_a_call_as_its_status() {
    let server = Running::start(builder(), |_lane| {
        tower::service_fn(async |request: Request<Incoming>| {
            let status: StatusCode = request.uri().path()[1..].parse().expect("a status");
            let problem = Problem::from(status).detail("50% of it: \u{e9}\n");
            Ok::<_, Infallible>(problem.into_response())
        })
    });
    let codes = [
        (400, "13"),
        (401, "16"),
        (403, "7"),
        (404, "12"),
        (408, "4"),
        (409, "2"),
        (413, "8"),
        (429, "14"),
        (500, "13"),
        (501, "12"),
        (502, "14"),
        (503, "14"),
        (504, "4"),
    ];
    with_client(&server, |mut client| async move {
        for (status, code) in codes {
            let headers = trailers_only(&mut client, call(&format!("/{status}")), 0).await;
            assert_eq!(told(&headers), ["application/grpc", code, "50%25 of it: %C3%A9%0A"]);
            assert!(!headers.contains_key("content-length"), "{headers:?}");
        }
        // Clients that do not use gRPC receive the problem itself.
        let request = Request::post("http://test/503").body(()).expect("a request");
        let (reply, _) = client.send_request(request, true).expect("sent");
        let reply = reply.await.expect("a reply");
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.headers()["content-type"], "application/problem+json");
    });
}

/// With the head already sent, the status goes into the trailers.
#[test]
fn a_body_that_is_too_large_later_is_told_in_the_trailers() {
    let limits = Limits { body_bytes: 10, ..Limits::default() };
    let server = Running::start(builder().limits(limits), |_lane| {
        tower::service_fn(async |request: Request<Incoming>| {
            // Behaves like tonic, which ignores the type of the body's error.
            let trailers = async {
                let failed = request.into_body().collect().await.is_err();
                let status = if failed { "2" } else { "0" };
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", status.parse().expect("a value"));
                trailers.insert("grpc-message", "what".parse().expect("a value"));
                Ok::<_, Infallible>(http_body::Frame::<Bytes>::trailers(trailers))
            };
            Ok::<_, Infallible>(Response::new(StreamBody::new(futures_util::stream::once(
                trailers,
            ))))
        })
    });
    with_client(&server, |mut client| async move {
        for (bytes, expected) in
            [(10, ["0", "what"]), (11, ["8", "a request body may have at most 10 bytes"])]
        {
            let (reply, mut stream) = client.send_request(call("/"), false).expect("sent");
            let mut body = reply.await.expect("a head").into_body();
            stream.send_data(vec![b'x'; bytes].into(), true).expect("sent");
            let trailers = body.trailers().await.expect("trailers").expect("some");
            assert_eq!(told(&trailers)[1..], expected);
        }
    });
}
