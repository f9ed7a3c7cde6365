//! Requests that come before the reply to the one before has gone.

mod support;

use std::convert::Infallible;

use bytes::Bytes;
use corelane::Incoming;
use http::{Request, Response};
use http_body_util::Full;
use support::{Running, builder};

/// More than the kernel's buffers hold: 30 MB.
const REPLIES: usize = 1000;
const LENGTH: usize = 30_000;

#[test]
fn a_client_that_reads_late_gets_every_reply() {
    let server = Running::start(builder().routes(["/"]), |_lane| {
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
    // Until it is the same number many times: the replies fill the socket.
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

#[test]
fn all_of_it_holds_without_plain_requests() {
    support::without_plain_requests();
}
