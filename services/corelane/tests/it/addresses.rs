//! Client addresses as services and observers see them.

use std::convert::Infallible;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::support::tls::{Authority, connect, name};
use crate::support::worker::with_worker;
use crate::support::{
    Client, Running, Way,
    Way::{Hyper, Plain},
};
use axum::extract::ConnectInfo;
use bytes::Bytes;
use corelane::axum::ConnectInfoLayer;
use corelane::{
    Builder, ConnectionInfo, Finished, ForwardedHeader, Incoming, Lane, Lanes, Listen, Timeouts,
};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use rstest::rstest;
use tower::util::BoxCloneSyncService;

pub(crate) type Service = BoxCloneSyncService<Request<Incoming>, Response<Full<Bytes>>, Infallible>;

/// Returns what is known about the request's connection and client, one fact per line.
pub(crate) fn describe(_lane: &Lane) -> Service {
    BoxCloneSyncService::new(tower::service_fn(|request: Request<Incoming>| async move {
        // This information stays available across an await.
        let before = corelane::connection().expect("a connection");
        tokio::task::yield_now().await;
        let connection = corelane::connection().expect("a connection");
        assert_eq!(before, connection);
        let ConnectionInfo { peer, local, proxy, protocol, tls, .. } = connection;
        let client = corelane::client_addr(request.headers());
        let text = format!("{peer:?}\n{local:?}\n{proxy:?}\n{protocol:?}\n{tls:?}\n{client:?}");
        Ok(Response::new(Full::from(text)))
    }))
}

fn free(proxy_protocol: bool) -> Listen {
    let free = "127.0.0.1:0".parse().expect("an address");
    Listen::tcp(free).proxy_protocol(proxy_protocol)
}

/// A server that requires the PROXY protocol.
fn proxied(way: Way) -> Builder {
    let builder = corelane::Server::builder().listen(free(true));
    let drain = corelane::Drain { settle: Duration::ZERO, ..Default::default() };
    let admin = "127.0.0.1:0".parse().expect("an address");
    builder
        .admin(admin)
        .lanes(Lanes::Count(1))
        .signals(false)
        .drain(drain)
        .plain_requests(way == Plain)
}

fn expected(
    peer: SocketAddr,
    local: SocketAddr,
    proxy: Option<SocketAddr>,
    protocol: &str,
    client: &str,
) -> String {
    let client: IpAddr = client.parse().expect("an address");
    let some = (Some(peer), Some(local), Some(client));
    format!("{:?}\n{:?}\n{proxy:?}\n{protocol}\nNone\n{:?}", some.0, some.1, some.2)
}

fn own(client: &Client) -> SocketAddr {
    client.socket.local_addr().expect("an address")
}

#[rstest]
fn a_handler_knows_both_ends(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(way.builder(), describe);
    let mut client = server.connect();
    let want = expected(own(&client), server.address, None, "Http1", "127.0.0.1");
    assert_eq!(client.get("/").text(), want);
    // hyper takes over the connection here.
    client.send("GET / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(client.read_answer().text(), want);
    assert_eq!(client.get("/").text(), want);
}

#[test]
fn outside_a_handler_nobody_is_connected() {
    assert!(corelane::connection().is_none());
    let (outside, heard) = mpsc::channel();
    let server = Running::start(crate::support::builder(), move |_lane| {
        let outside = outside.clone();
        tower::service_fn(move |_request: Request<Incoming>| {
            let outside = outside.clone();
            tokio::task::spawn_local(async move { outside.send(corelane::connection()) });
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
        })
    });
    assert_eq!(server.get("/").status, 200);
    assert_eq!(heard.recv().expect("a message"), None);
}

#[test]
fn a_socket_for_both_versions_shows_clients_of_the_old_one_as_they_are() {
    let both = "[::]:0".parse().expect("an address");
    let builder = corelane::Server::builder().bind(both).lanes(Lanes::Count(1)).signals(false);
    let builder = builder.admin("127.0.0.1:0".parse().expect("an address"));
    let server = Running::start(builder, describe);
    let mut client = Client::connect(([127, 0, 0, 1], server.address.port()).into());
    let text = client.get("/").text();
    assert!(text.starts_with(&format!("Some([::ffff:127.0.0.1]:{})\n", own(&client).port())));
    assert!(text.ends_with("\nSome(127.0.0.1)"), "{text}");
}

/// Sends two concurrent requests over HTTP/2.
async fn ask_http2(address: SocketAddr, proxy: &'static str) -> (SocketAddr, Vec<String>) {
    let mut socket = std::net::TcpStream::connect(address).expect("connect");
    socket.write_all(proxy.as_bytes()).expect("write");
    socket.set_nonblocking(true).expect("non-blocking");
    let own = socket.local_addr().expect("an address");
    let socket = tokio::net::TcpStream::from_std(socket).expect("a socket");
    let (mut client, connection) = h2::client::handshake(socket).await.expect("handshake");
    tokio::spawn(connection);
    let mut texts = Vec::new();
    for _ in 0..2 {
        let request = Request::get("http://test/").body(()).expect("a request");
        let (reply, _) = client.send_request(request, true).expect("a stream");
        let mut body = reply.await.expect("a reply").into_body();
        let mut text = Vec::new();
        while let Some(part) = body.data().await {
            text.extend_from_slice(&part.expect("a part"));
        }
        texts.push(String::from_utf8(text).expect("text"));
    }
    (own, texts)
}

#[test]
fn a_handler_of_http2_knows_both_ends() {
    let server = Running::start(crate::support::builder(), describe);
    let (own, texts) = with_worker(ask_http2(server.address, ""));
    let want = expected(own, server.address, None, "Http2", "127.0.0.1");
    assert_eq!(texts, [want.as_str(), want.as_str()]);
}

#[test]
fn tls_tells_what_was_agreed_on() {
    let authority = Authority::new();
    let server = Running::start(crate::support::builder().tls(authority.ready()), describe);
    let mut client = authority.connect(server.address);
    let text = client.get("/").text();
    for part in [
        "version: \"TLSv1.3\"",
        "cipher: \"TLS_",
        "alpn: Some(\"http/1.1\")",
        "server_name: Some(\"localhost\")",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let old = authority.client(&[], Some(rustls::ProtocolVersion::TLSv1_2));
    let text = connect(server.address, &Arc::new(old)).get("/").text();
    for part in ["version: \"TLSv1.2\"", "cipher: \"TLS_ECDHE_", "alpn: None"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn what_is_known_survives_parking() {
    let authority = Authority::new();
    let park_after = Some(Duration::from_millis(100));
    let builder = proxied(Plain).tls(authority.ready()).park_after(park_after);
    let server = Running::start(builder, describe);
    let mut socket = Client::connect(server.address).socket;
    socket.write_all(b"PROXY TCP4 192.0.2.1 198.51.100.2 5000 443\r\n").expect("write");
    let config = Arc::new(authority.client(&["http/1.1"], None));
    let session = rustls::ClientConnection::new(config, name()).expect("a session");
    let mut client = Client::over(rustls::StreamOwned::new(session, socket));
    let text = client.get("/").text();
    assert!(text.starts_with("Some(192.0.2.1:5000)\nSome(198.51.100.2:443)\nSome(127.0.0.1:"));
    assert!(text.contains("localhost") && text.ends_with("\nSome(192.0.2.1)"), "{text}");
    for _ in 0..2 {
        server.wait_for_metric("corelane_connections_parked{lane=\"0\"}", 1.0);
        assert_eq!(client.get("/").text(), text);
    }
}

#[rstest]
fn the_header_of_a_proxy_names_the_client(#[values(Plain, Hyper)] way: Way) {
    let server = Running::start(proxied(way), describe);
    let mut client = server.connect();
    let want = expected(
        "192.0.2.1:5000".parse().expect("an address"),
        "198.51.100.2:80".parse().expect("an address"),
        Some(own(&client)),
        "Http1",
        "192.0.2.1",
    );
    let header = "PROXY TCP4 192.0.2.1 198.51.100.2 5000 80\r\n";
    // Sends the header byte by byte, with the request in the same write as the last byte.
    for byte in &header.as_bytes()[..header.len() - 1] {
        client.send([*byte]);
    }
    client.send("\nGET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(client.read_answer().text(), want);
    assert_eq!(client.get("/").text(), want);
    let (_, texts) = with_worker(ask_http2(server.address, header));
    assert!(texts[1].starts_with("Some(192.0.2.1:5000)"), "{texts:?}");
    assert_eq!(server.refused("proxy_header"), 0.0);
}

#[test]
fn version_2_of_the_header_may_carry_more_fields() {
    let server = Running::start(proxied(Plain), describe);
    let start = b"\r\n\r\n\0\r\nQUIT\n";
    let addresses = [192, 0, 2, 1, 198, 51, 100, 2, 0x13, 0x88, 0, 80];
    // A TLV of unknown type, 3,000 bytes long.
    let field = [&[0xee, 0x0b, 0xb8][..], &[7; 3000]].concat();
    let length = u16::try_from(addresses.len() + field.len()).expect("short").to_be_bytes();
    let header = [&start[..], &[0x21, 0x11], &length, &addresses, &field].concat();
    let mut first = server.connect();
    first.send(&header);
    assert!(first.get("/").text().starts_with("Some(192.0.2.1:5000)\nSome(198.51.100.2:80)\n"));
    // The proxy's own health check.
    let mut client = server.connect();
    client.send([&start[..], &[0x20, 0, 0, 0]].concat());
    let want = expected(own(&client), server.address, None, "Http1", "127.0.0.1");
    assert_eq!(client.get("/").text(), want);
    // A connection without data is not an error.
    drop(server.connect());
    server.wait_for_metric("corelane_connections_accepted_total{lane=\"0\"}", 3.0);
    drop(client);
    server.wait_for_connections(1);
    assert_eq!(server.refused("proxy_header"), 0.0);
}

#[test]
fn without_its_header_a_connection_of_a_proxy_is_closed() {
    let server = Running::start(proxied(Plain), describe);
    let endless = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x21, 0x11, 0xff, 0xff]].concat();
    let wrong: [&[u8]; 3] = [b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", b"PROXY TCP9 ", &endless];
    for (count, wrong) in wrong.into_iter().enumerate() {
        let mut client = server.connect();
        client.send(wrong);
        if wrong.starts_with(b"PROXY") {
            client.send("\r\n");
        }
        assert!(client.read_to_close().is_empty());
        server.wait_until("counted", || server.refused("proxy_header") == (count + 1) as f64);
    }
    // The PROXY header counts towards the header timeout.
    let timeouts = Timeouts { header: Duration::from_millis(100), ..Timeouts::default() };
    let server = Running::start(proxied(Plain).timeouts(timeouts), describe);
    let mut client = server.connect();
    client.send("PROXY TCP4 ");
    assert!(client.read_to_close().is_empty());
    assert_eq!(server.refused("header_timeout"), 1.0);
}

#[test]
fn trusted_proxies_name_their_clients() {
    let builder = |header| {
        crate::support::builder()
            .trusted_proxies(
                ["127.0.0.1", "10.0.0.0/8"].map(|proxy| proxy.parse().expect("a proxy")),
            )
            .forwarded_header(header)
    };
    let client_of = |builder: Builder, field: &str| {
        let server = Running::start(builder, describe);
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n"));
        let text = client.read_answer().text();
        text.lines().last().expect("a line").to_owned()
    };
    let both = "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nX-Forwarded-For: 10.1.1.1\r\n\
                Forwarded: for=\"[2001:db8::5]:80\";proto=https";
    let found = client_of(builder(ForwardedHeader::XForwardedFor), both);
    assert_eq!(found, "Some(192.0.2.1)");
    let found = client_of(builder(ForwardedHeader::Forwarded), both);
    assert_eq!(found, "Some(2001:db8::5)");
    assert_eq!(client_of(crate::support::builder(), both), "Some(127.0.0.1)");
}

#[rstest]
fn an_observer_gets_the_client_if_it_was_asked_for(#[values(true, false)] wanted: bool) {
    let (sender, finished) = mpsc::channel();
    let observe = move |_lane: &Lane| {
        let sender = sender.clone();
        move |request: &Finished<'_>| {
            let _ = sender.send(request.client);
        }
    };
    let builder =
        crate::support::builder().trusted_proxies(["127.0.0.1".parse().expect("a proxy")]);
    let builder = builder.client_addresses(wanted).observer(observe);
    let server = Running::start(builder, describe);
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    assert_eq!(client.read_answer().status, 200);
    let want = wanted.then(|| IpAddr::from([192, 0, 2, 1]));
    assert_eq!(finished.recv().expect("a request"), want);
}

#[test]
fn the_extractor_of_axum_finds_the_connection() {
    async fn all(
        ConnectInfo(peer): ConnectInfo<SocketAddr>,
        ConnectInfo(connection): ConnectInfo<ConnectionInfo>,
        headers: HeaderMap,
    ) -> String {
        assert_eq!(connection.peer, Some(peer));
        format!("{peer} {:?}", corelane::client_addr(&headers))
    }
    let server = Running::start(crate::support::builder(), |_lane| {
        axum::Router::new().route("/", axum::routing::get(all)).layer(ConnectInfoLayer)
    });
    let mut client = server.connect();
    let want = format!("{} Some(127.0.0.1)", own(&client));
    assert_eq!(client.get("/").text(), want);
}
