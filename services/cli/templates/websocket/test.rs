//! Tests the service on its own server, over real sockets.

use __CRATE__::Everyone;
use corelane::Server;
use corelane::testing::TestServer;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{WebSocketStream, client_async};

fn start() -> TestServer {
    let everyone = Everyone::default();
    let serve = move |lane: &corelane::Lane| __CRATE__::service(lane, &everyone, "hello");
    TestServer::start(Server::builder(), serve).expect("it starts")
}

type Member = WebSocketStream<TcpStream>;

async fn enter(server: &TestServer) -> Member {
    let socket = TcpStream::connect(server.address()).await.expect("a connection");
    let (mut member, _reply) = client_async("ws://test/room", socket).await.expect("a WebSocket");
    assert_eq!(heard(&mut member).await, Message::text("hello"));
    member
}

async fn heard(member: &mut Member) -> Message {
    member.next().await.expect("a message").expect("a whole one")
}

#[tokio::test]
async fn all_members_hear_a_message() {
    let server = start();
    let (mut one, mut two) = (enter(&server).await, enter(&server).await);
    one.send(Message::text("to all")).await.expect("sent");
    for member in [&mut one, &mut two] {
        assert_eq!(heard(member).await, Message::text("to all"));
    }
}

#[tokio::test]
async fn a_drain_asks_members_to_connect_again() {
    let server = start();
    let mut member = enter(&server).await;
    server.handle().drain();
    let Message::Close(Some(frame)) = heard(&mut member).await else { panic!("no reason") };
    assert_eq!(frame.code, CloseCode::Away);
}
