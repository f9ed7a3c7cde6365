//! Connections that have lived or served for long enough.

use std::io::Read;
use std::time::Duration;

use corelane::{Limits, Timeouts};

use super::{strict, with_limits};
use crate::support::{
    Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    worker::with_worker,
};
use rstest::rstest;

/// The least that a connection may be allowed.
const AGE: Duration = Duration::from_secs(1);

fn aging() -> Timeouts {
    Timeouts { connection_age: Some(AGE), ..Timeouts::default() }
}

#[rstest]
fn an_old_connection_is_told_to_go_with_its_next_reply(#[values(Plain, Hyper)] way: Way) {
    let handlers = Handlers::new();
    let server = Running::start(way.builder().timeouts(aging()), handlers.factory());
    let mut serving = server.connect();
    assert!(!serving.get("/hello").closes());
    serving.send_get("/gate");
    server.wait_for_in_flight(1);
    server.wait_until("old", || server.refused("age") == 1.0);
    handlers.gate.add_permits(1);
    let answer = serving.read_answer();
    assert!(answer.status == 200 && answer.closes(), "a request in flight is finished: {answer:?}");
    assert!(serving.read_to_close().is_empty());
}

/// A close would meet a request that is on its way, and a proxy that does not retry would fail it.
#[rstest]
fn an_old_connection_that_is_idle_is_told_with_its_next_reply_too(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, _) = strict(way, Timeouts { header: 3 * AGE, ..aging() });
    let mut idle = server.connect();
    assert!(!idle.get("/hello").closes());
    server.wait_until("old", || server.refused("age") == 1.0);
    let mut silent = server.connect();
    assert!(silent.read_to_close().is_empty(), "some seconds pass");
    assert!(idle.get("/hello").closes());
    assert!(idle.read_to_close().is_empty());
    assert_eq!(server.refused("age"), 1.0);
}

#[rstest]
fn an_old_connection_that_is_idle_for_too_long_is_closed(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = strict(way, Timeouts { idle: 2 * AGE, ..aging() });
    let mut idle = server.connect();
    assert!(!idle.get("/hello").closes());
    assert!(idle.read_to_close().is_empty());
    assert_eq!((server.refused("age"), server.refused("idle_timeout")), (1.0, 1.0));
    server.wait_for_connections(0);
}

#[rstest]
fn a_busy_connection_gets_no_older_than_it_may(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = strict(way, aging());
    let mut client = server.connect();
    server.wait_until("told to go", || client.get("/hello").closes());
    assert!(client.read_to_close().is_empty());
    assert_eq!(server.refused("age"), 1.0);
}

#[rstest]
fn a_connection_carries_as_many_requests_as_it_may(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { connection_requests: Some(3), ..Limits::default() };
    let (server, _) = with_limits(way, limits);
    let mut client = server.connect();
    let closes: Vec<_> = (0..3).map(|_| client.get("/hello").closes()).collect();
    assert_eq!(closes, [false, false, true]);
    assert!(client.read_to_close().is_empty());

    let mut pipelining = server.connect();
    pipelining.send("GET /hello HTTP/1.1\r\nHost: t\r\n\r\n".repeat(5));
    let replies = String::from_utf8(pipelining.read_to_close()).expect("text");
    assert_eq!(replies.matches("HTTP/1.1 200").count(), 3);
    assert_eq!(server.refused("requests"), 2.0);
}

/// What is sent meanwhile, and after that, does not make its end a reset, which would take the last
/// reply with it (RFC 9112 section 9.6).
#[rstest]
fn what_comes_behind_the_last_request_does_no_harm(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { connection_requests: Some(1), ..Limits::default() };
    let (server, handlers) = with_limits(way, limits);
    let mut client = server.connect();
    client.send_get("/hello");
    assert!(client.read_answer().closes() && client.read_to_close().is_empty());
    for _ in 0..3 {
        // The second could not be sent if the first were answered with a reset.
        client.send_get("/gate");
        assert_eq!(server.admin_get("/healthz").status, 200);
    }
    assert_eq!(client.socket.read(&mut [0]).expect("no reset"), 0);
    assert_eq!(handlers.alive(), 0);
    drop(client);
    server.wait_for_connections(0);
}

#[rstest]
fn http2_clients_are_sent_goaway(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { connection_requests: Some(3), ..Limits::default() };
    for ((server, _), reason) in
        [(with_limits(way, limits), "requests"), (strict(way, aging()), "age")]
    {
        with_worker(async {
            let socket = tokio::net::TcpStream::connect(server.address).await.expect("connect");
            let (mut client, connection) = h2::client::handshake(socket).await.expect("handshake");
            let connection = tokio::spawn(connection);
            let mut answered = 0;
            // GOAWAY: no further stream on this connection; those in flight are finished.
            let refused = async {
                while let Ok(ready) = client.clone().ready().await {
                    client = ready;
                    let request = http::Request::get("http://test/hello").body(());
                    let sent = client.send_request(request.expect("a request"), true);
                    let Ok((reply, _)) = sent else { break };
                    match reply.await {
                        Ok(mut reply) => {
                            assert_eq!(reply.status(), 200);
                            while reply.body_mut().data().await.is_some() {}
                        }
                        Err(error) => {
                            assert!(error.is_go_away() && error.is_remote(), "{error}");
                            break;
                        }
                    }
                    answered += 1;
                }
            };
            tokio::time::timeout(PATIENCE, refused).await.expect("GOAWAY ends new streams");
            assert!(answered >= 3, "{answered}");
            drop(client);
            let ended = tokio::time::timeout(PATIENCE, connection).await.expect("in time");
            ended.expect("no panic").expect("a graceful end");
        });
        assert_eq!(server.refused(reason), 1.0);
        server.wait_for_connections(0);
    }
}
