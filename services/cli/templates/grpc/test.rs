//! Tests the service on its own server, over real sockets.

use __CRATE__::greeter::GreetRequest;
use __CRATE__::greeter::greeter_client::GreeterClient;
use corelane::Server;
use corelane::testing::TestServer;
use tonic::Code;
use tonic::transport::Channel;

async fn start() -> (TestServer, GreeterClient<Channel>) {
    let serve = |_lane: &corelane::Lane| __CRATE__::service("hello".to_owned());
    let server = TestServer::start(Server::builder(), serve).expect("it starts");
    let url = format!("http://{}", server.address());
    let channel = Channel::from_shared(url).expect("a URL").connect().await;
    (server, GreeterClient::new(channel.expect("a connection")))
}

#[tokio::test]
async fn a_name_is_greeted() {
    let (_server, mut client) = start().await;
    let reply = client.greet(GreetRequest { name: "Ada".to_owned() }).await.expect("a reply");
    assert_eq!(reply.into_inner().text, "hello Ada");
}

#[tokio::test]
async fn a_name_is_required() {
    let (_server, mut client) = start().await;
    let status = client.greet(GreetRequest::default()).await.expect_err("a status");
    assert_eq!(status.code(), Code::InvalidArgument);
}
