//! Connections that reach their age or request limit: clients reconnect without losing anything.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use corelane::{Limits, Timeouts};
use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use http::StatusCode;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{strict, with_limits};
use crate::support::{
    BIG, Handlers, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    worker::{get, http2, with_worker},
};
use rstest::rstest;

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

/// Closing could race with a request, and a proxy that does not retry would fail it.
#[rstest]
fn an_old_connection_that_is_idle_is_told_with_its_next_reply_too(
    #[values(Plain, Hyper)] way: Way,
) {
    let (server, _) = strict(way, Timeouts { header: AGE, ..aging() });
    let mut idle = server.connect();
    assert!(!idle.get("/hello").closes());
    server.wait_until("old", || server.refused("age") == 1.0);
    let mut silent = server.connect();
    assert!(silent.read_to_close().is_empty(), "a second passes");
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

/// Bytes that arrive around the close must not turn it into a reset, which could lose the last
/// response (RFC 9112 section 9.6).
#[rstest]
fn what_comes_behind_the_last_request_does_no_harm(#[values(Plain, Hyper)] way: Way) {
    let limits = Limits { connection_requests: Some(1), ..Limits::default() };
    let (server, handlers) = with_limits(way, limits);
    let mut client = server.connect();
    client.send_get("/hello");
    assert!(client.read_answer().closes() && client.read_to_close().is_empty());
    for _ in 0..3 {
        // Sending would fail if the first request had caused a reset.
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
            let (mut client, connection) = http2(&server).await;
            let mut answered = 0;
            // After GOAWAY, the server accepts no new streams but finishes open streams.
            let refused = async {
                while let Ok(ready) = client.clone().ready().await {
                    client = ready;
                    let sent = client.send_request(get("/hello"), true);
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

/// Like a gateway, opens a new connection after GOAWAY.
struct Pool<'a> {
    server: &'a Running,
    client: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    /// Retired connections that are still closing.
    left: Vec<JoinHandle<Result<(), h2::Error>>>,
    replies: u32,
}

async fn connect(server: &Running) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(server.address).await.expect("connect");
    // Unread streams must not block other streams.
    let mut builder = h2::client::Builder::new();
    let handshake = builder.initial_connection_window_size(1 << 20).handshake(socket);
    let (client, connection) = handshake.await.expect("handshake");
    (client, tokio::spawn(connection))
}

impl<'a> Pool<'a> {
    async fn new(server: &'a Running) -> Self {
        let (client, connection) = connect(server).await;
        Pool { server, client, connection, left: Vec::new(), replies: 0 }
    }

    /// Uses the current connection if it still accepts requests, and otherwise opens a new
    /// connection.
    async fn send(&mut self, target: &str) -> ResponseFuture {
        loop {
            let sent = match self.client.clone().ready().await {
                Ok(mut ready) => ready.send_request(get(target), true),
                Err(error) => Err(error),
            };
            match sent {
                Ok((reply, _)) => return reply,
                Err(error) => assert!(error.is_go_away() && error.is_remote(), "{error}"),
            }
            let (client, connection) = connect(self.server).await;
            self.client = client;
            self.left.push(std::mem::replace(&mut self.connection, connection));
        }
    }

    async fn get(&mut self, target: &str) {
        let reply = loop {
            match self.send(target).await.await {
                Ok(reply) => break reply,
                // The request followed the response to the server's PING, which determined the last
                // stream to process. The client may retry (RFC 9113 section 6.8).
                Err(error) => assert!(error.is_go_away() && error.is_remote(), "{error}"),
            }
        };
        assert_eq!(reply.status(), StatusCode::OK);
        let mut body = reply.into_body();
        while let Some(data) = body.data().await {
            let length = data.expect("the whole reply").len();
            body.flow_control().release_capacity(length).expect("released");
        }
        self.replies += 1;
    }

    /// Sends requests until this many connections are retired.
    async fn leave(&mut self, connections: usize) {
        while self.left.len() < connections {
            self.get("/hello").await;
        }
    }
}

#[rstest]
fn clients_leave_old_connections_without_an_error(#[values(Plain, Hyper)] way: Way) {
    let (server, _) = strict(way, aging());
    let replies = with_worker(async {
        let clients = join_all((0..100).map(|_| ask(&server, 2)));
        tokio::time::timeout(PATIENCE, clients).await.expect("in time").into_iter().sum::<u32>()
    });
    server.wait_for_connections(0);
    let hello = "corelane_requests_total{lane=\"0\",route=\"other\",method=\"GET\",code=\"200\"}";
    assert_eq!(server.metric(hello), f64::from(replies), "each request is executed once");
    assert!(server.refused("age") >= 200.0, "{}", server.refused("age"));
}

/// As above, and checks that each connection closes cleanly. Returns the number of responses.
async fn ask(server: &Running, connections: usize) -> u32 {
    let mut pool = Pool::new(server).await;
    pool.leave(connections).await;
    drop(pool.client);
    for connection in pool.left {
        connection.await.expect("no panic").expect("a graceful end");
    }
    pool.replies
}

#[rstest]
fn streams_in_flight_end_well_on_a_connection_that_is_old(#[values(Plain, Hyper)] way: Way) {
    let (server, handlers) = strict(way, aging());
    with_worker(async {
        let test = async {
            let mut pool = Pool::new(&server).await;
            let gate = pool.send("/gate").await;
            let big = pool.send("/big").await.await.expect("a head");
            pool.leave(1).await;
            // New requests use another connection while the old one finishes.
            handlers.gate.add_permits(1);
            assert_eq!(gate.await.expect("a reply").status(), StatusCode::OK);
            let mut body = big.into_body();
            let mut received = 0;
            while let Some(data) = body.data().await {
                let length = data.expect("the whole reply").len();
                body.flow_control().release_capacity(length).expect("released");
                received += length;
            }
            assert_eq!(received, BIG);
            let old = pool.left.pop().expect("the old connection");
            old.await.expect("no panic").expect("a graceful end");
        };
        tokio::time::timeout(PATIENCE, test).await.expect("in time");
    });
    assert_eq!(server.refused("write_timeout"), 0.0);
}
