//! Requests that come before the reply to the one before has gone.

mod support;

use std::convert::Infallible;

use bytes::Bytes;
use corelane::Incoming;
use http::{Request, Response};
use http_body_util::Full;
use support::{Running, builder};

const REPLIES: usize = 1000;
const LENGTH: usize = 30_000;

/// Answers what the kernel's buffers do not hold many of, without a look at the body.
fn start() -> Running {
    Running::start(builder().routes(["/"]), |_lane| {
        tower::service_fn(|request: Request<Incoming>| async move {
            tokio::task::yield_now().await;
            drop(request);
            Ok::<_, Infallible>(Response::new(Full::from(Bytes::from_static(&[b'x'; LENGTH]))))
        })
    })
}

/// Requests that were answered, as far as the server could write.
fn answered(server: &Running) -> f64 {
    server.metric("corelane_requests_total{lane=\"0\",route=\"/\",method=\"POST\",code=\"200\"}")
}

#[test]
fn a_client_that_reads_late_gets_every_reply() {
    let server = start();
    let mut client = server.connect();
    let post = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n0123456789";
    client.send(post.repeat(REPLIES));
    // Until the same number was seen often in a row: the replies fill the socket.
    let (mut last, mut same) = (0.0, 0);
    server.wait_until("the socket is full", || {
        let now = answered(&server);
        same = if now == last && now > 0.0 { same + 1 } else { 0 };
        last = now;
        same == 20
    });
    assert!(last < REPLIES as f64, "the socket holds all of it");
    for _ in 0..REPLIES {
        let answer = client.read_answer();
        assert_eq!((answer.status, answer.body.len()), (200, LENGTH));
    }
    server.wait_for_in_flight(0);
}

#[test]
fn a_body_that_nobody_reads_does_not_end_its_connection() {
    let server = Running::start(builder(), |_lane| {
        // Dropped before its future is polled.
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
