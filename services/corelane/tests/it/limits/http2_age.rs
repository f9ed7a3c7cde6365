//! HTTP/2 connections that have lived for long enough: clients go to new ones and lose nothing.

use std::time::Duration;

use bytes::Bytes;
use corelane::Timeouts;
use futures_util::future::join_all;
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, StatusCode};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::strict;
use crate::support::{
    BIG, PATIENCE, Running, Way,
    Way::{Hyper, Plain},
    worker::with_worker,
};
use rstest::rstest;

/// The least that a connection may be allowed.
const AGE: Duration = Duration::from_secs(1);

/// A client as gateways are: a request goes to a new connection once the one before said GOAWAY.
struct Pool<'a> {
    server: &'a Running,
    client: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    /// Connections that it was told to leave, each until its end.
    left: Vec<JoinHandle<Result<(), h2::Error>>>,
    /// Replies so far.
    replies: u32,
}

async fn connect(server: &Running) -> (SendRequest<Bytes>, JoinHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(server.address).await.expect("connect");
    // A stream that is not read leaves room for the others.
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

    /// Sends a request that the connection may still take, or a new one takes.
    async fn send(&mut self, target: &str) -> ResponseFuture {
        loop {
            let request = Request::get(format!("http://test{target}")).body(());
            let sent = match self.client.clone().ready().await {
                Ok(mut ready) => ready.send_request(request.expect("a request"), true),
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
                // It was sent after the answer to the server's PING, which closed the list of
                // streams that are processed: it may be sent again (RFC 9113 section 6.8).
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

    /// Asks until it has left so many connections.
    async fn leave(&mut self, connections: usize) {
        while self.left.len() < connections {
            self.get("/hello").await;
        }
    }
}

fn aging() -> Timeouts {
    Timeouts { connection_age: Some(AGE), ..Timeouts::default() }
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

/// Asks until it has left so many connections, each of which ends well; the replies that it got.
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
            // Requests go to another connection, while the old one is half way through.
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
