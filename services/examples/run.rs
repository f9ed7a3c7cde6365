//! Runs each example as a process, sends it requests and stops it with SIGTERM.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use http::uri::PathAndQuery;
use rustix::process::{Pid, Signal, kill_process};
use tokio_stream::StreamExt;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, IntoRequest, Status};
use tonic_prost::ProstCodec;

const GRPC: [&str; 3] = ["--listen=127.0.0.1:0", "--admin.listen=127.0.0.1:0", "--drain.settle=0s"];

/// A running example, which is killed when dropped.
struct Example {
    process: Child,
    output: BufReader<ChildStdout>,
    said: String,
}

impl Example {
    fn start(program: &str, arguments: &[&str]) -> Example {
        let started = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn();
        let mut process = started.expect("the example starts");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut said = String::new();
        output.read_line(&mut said).expect("text");
        Example { process, output, said }
    }

    fn address(&self) -> SocketAddr {
        let address = self.said.trim().strip_prefix("listening on ");
        address.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("it said {:?}", self.said))
    }

    fn drain(&self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it runs");
    }

    async fn terminate(self) {
        self.drain();
        assert!(self.end().await.ends_with("drained; 0 requests were cut\n"));
    }

    /// Waits for a clean exit and returns the rest of the output. Clients close their connections
    /// in the meantime.
    async fn end(mut self) -> String {
        let end = move || {
            let mut rest = String::new();
            self.output.read_to_string(&mut rest).expect("text");
            let status = self.process.wait().expect("it ends");
            assert_eq!(status.code(), Some(0), "{rest}");
            rest
        };
        tokio::task::spawn_blocking(end).await.expect("a clean end")
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

type Codec = ProstCodec<Number, Number>;

async fn connect(address: SocketAddr) -> Grpc<Channel> {
    let channel = Channel::from_shared(format!("http://{address}")).expect("a URI");
    Grpc::new(channel.connect().await.expect("connected"))
}

async fn add(client: &mut Grpc<Channel>, path: &'static str, value: u64) -> Result<u64, Status> {
    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static(path);
    let reply = client.unary(Number { value }.into_request(), path, Codec::default()).await?;
    Ok(reply.into_inner().value)
}

type Counter = Grpc<Channel>;

async fn sums(client: &mut Counter, numbers: &[u64]) -> Result<Vec<u64>, Status> {
    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Counter/Sums");
    let reply = client.streaming(stream_of(numbers), path, Codec::default()).await?;
    let sums: Result<Vec<_>, _> = reply.into_inner().collect().await;
    Ok(sums?.iter().map(|sum| sum.value).collect())
}

fn stream_of(numbers: &[u64]) -> tonic::Request<impl tokio_stream::Stream<Item = Number> + use<>> {
    tonic::Request::new(tokio_stream::iter(numbers.to_vec()).map(|value| Number { value }))
}

async fn calls(client: &mut Counter) {
    let status = add(client, "/example.Counter/Drop", 1).await.expect_err("no such call");
    assert_eq!(status.code(), Code::Unimplemented);
    // The response has no body, so the status is in its head.
    assert_eq!(status.message(), "/example.Counter/Drop");

    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Counter/CountTo");
    let request = Number { value: 1000 }.into_request();
    let numbers = client.server_streaming(request, path, Codec::default()).await.expect("a reply");
    let numbers: Result<Vec<_>, _> = numbers.into_inner().collect().await;
    let numbers: Vec<_> = numbers.expect("a whole stream").iter().map(|n| n.value).collect();
    assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());

    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Counter/AddAll");
    let request = stream_of(&numbers);
    let reply = client.client_streaming(request, path, Codec::default()).await.expect("a reply");
    assert_eq!(reply.into_inner().value, 500_500);

    assert_eq!(sums(client, &[1, 2, 3]).await.expect("a stream"), [1, 3, 6]);
}

/// A call in which both sides take turns sending.
async fn talk(client: &mut Counter) {
    let (sender, numbers) = tokio::sync::mpsc::channel(1);
    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Counter/Sums");
    let numbers = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(numbers));
    let reply = client.streaming(numbers, path, Codec::default()).await.expect("a reply");
    let mut sums = reply.into_inner();
    for value in 1..=10 {
        sender.send(Number { value }).await.expect("the call is open");
        let sum = sums.message().await.expect("a message").expect("not the end");
        assert_eq!(sum.value, value * (value + 1) / 2);
    }
    drop(sender);
    assert_eq!(sums.message().await.expect("a status"), None);
}

#[tokio::test]
async fn grpc() {
    let example = Example::start(env!("CARGO_BIN_EXE_grpc"), &GRPC);
    let mut client = connect(example.address()).await;
    // Each connection stays on one lane.
    assert_eq!(add(&mut client, "/example.Counter/Add", 3).await.expect("a reply"), 3);
    assert_eq!(add(&mut client, "/example.Counter/Add", 4).await.expect("a reply"), 7);
    calls(&mut client).await;
    talk(&mut client).await;
    drop(client);
    example.terminate().await;
}

#[tokio::test]
async fn grpc_through_a_gateway() {
    let Ok(gateway) = std::env::var("GATEWAY") else { return };
    let mut client = connect(gateway.parse().expect("an address")).await;
    calls(&mut client).await;
    talk(&mut client).await;
    every_lane_has_streams(&client).await;
}

/// Uses one client connection. Concurrent streams are spread over several gateway connections, with
/// four streams on each, and the kernel picks the lane of a connection at random. With two lanes,
/// all 40 streams end up on one lane once in 500 runs. With 72 streams, this happens once in
/// 100,000 runs.
async fn every_lane_has_streams(client: &Counter) {
    let alone = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
    let mut lanes = BTreeSet::new();
    let mut open = Vec::new();
    while open.len() < 40 || (lanes.len() == 1 && !alone && open.len() < 72) {
        let (sender, numbers) = tokio::sync::mpsc::channel::<Number>(1);
        let mut client = client.clone();
        client.ready().await.expect("connected");
        let path = PathAndQuery::from_static("/example.Counter/Sums");
        let numbers = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(numbers));
        let reply = client.streaming(numbers, path, Codec::default()).await.expect("a reply");
        let lane = reply.metadata().get("corelane-lane").expect("a lane");
        lanes.insert(lane.to_str().expect("a number").to_owned());
        open.push((sender, reply));
    }
    assert!(lanes.len() > 1 || alone, "{lanes:?}");
}

#[derive(Clone, PartialEq, prost::Message)]
struct Line {
    #[prost(string, tag = "1")]
    text: String,
}

/// Uses pages, events and calls on one port. A drain ends all open exchanges and notifies the
/// clients.
#[tokio::test]
async fn mixed() {
    let example = Example::start(env!("CARGO_BIN_EXE_mixed"), &["127.0.0.1:0"]);
    let url = format!("http://{}", example.address());
    let page = reqwest::get(&url).await.expect("a reply").text().await.expect("text");
    assert!(page.ends_with(" 1\n"), "{page}");
    let events = reqwest::get(format!("{url}/events")).await.expect("a reply");

    let mut client = connect(example.address()).await;
    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Talk/Who");
    let codec = ProstCodec::<Line, Line>::default;
    let who = client.unary(Line::default().into_request(), path, codec()).await.expect("a reply");
    assert_eq!(who.into_inner().text, page.trim_end());

    let (sender, lines) = tokio::sync::mpsc::channel(1);
    client.ready().await.expect("connected");
    let path = PathAndQuery::from_static("/example.Talk/Echo");
    let lines = tonic::Request::new(tokio_stream::wrappers::ReceiverStream::new(lines));
    let mut lines = client.streaming(lines, path, codec()).await.expect("a reply").into_inner();
    let line = Line { text: "here".to_owned() };
    sender.send(line.clone()).await.expect("the call is open");
    assert_eq!(lines.message().await.expect("a message"), Some(line));

    example.drain();
    let status = lines.message().await.expect_err("the end of the call");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "this replica drains"));
    assert!(events.text().await.expect("a whole reply").contains("event: bye\n"));
    drop(client);
    assert!(example.end().await.ends_with("drained; 0 requests were cut\n"));
}

#[tokio::test]
async fn a_cart_calls_orders() {
    let orders = Example::start(env!("CARGO_BIN_EXE_orders"), &GRPC);
    let url = format!("--orders.url=http://{}", orders.address());
    let cart = Example::start(env!("CARGO_BIN_EXE_cart"), &[&GRPC[..], &[&url]].concat());
    let page = format!("http://{}/orders/7", cart.address());
    let reply = reqwest::get(&page).await.expect("a reply").text().await.expect("text");
    assert!(reply.starts_with("order 7: "), "{reply}");
    orders.terminate().await;
    assert_eq!(reqwest::get(&page).await.expect("a reply").status(), 502);
    cart.terminate().await;
}

#[tokio::test]
async fn pools() {
    let example = Example::start(env!("CARGO_BIN_EXE_pools"), &["127.0.0.1:0"]);
    if std::env::var_os("DATABASE_URL").is_none() {
        assert!(example.said.starts_with("skipped: DATABASE_URL"), "{}", example.said);
        example.end().await;
        return;
    }
    for path in ["answer", "relay"] {
        let url = format!("http://{}/{path}", example.address());
        let reply = reqwest::get(url).await.expect("a reply");
        assert_eq!(
            (reply.status().as_u16(), reply.text().await.expect("text").as_str()),
            (200, "42\n")
        );
    }
    example.terminate().await;
}
