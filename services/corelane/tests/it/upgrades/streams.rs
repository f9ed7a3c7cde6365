//! Upgraded HTTP/2 streams.

use std::time::Duration;

use axum::body::Bytes;
use corelane::{Drain, Drained, Timeouts};
use h2::ext::Protocol;

use super::{UPGRADED, alive, serve, wait_for_handlers};
use crate::support::worker::{get as get_of, http2, with_worker};
use crate::support::{Client, PATIENCE, Running, builder};

async fn connect(server: &Running) -> h2::client::SendRequest<Bytes> {
    let (mut client, _) = http2(server).await;
    // Settings arrive with the first frames.
    let (reply, _) = client.send_request(get_of("/hello"), true).expect("sent");
    assert_eq!(reply.await.expect("a reply").status(), 200);
    assert!(client.is_extended_connect_protocol_enabled());
    client
}

fn request(method: &str, target: &str, protocol: Option<&'static str>) -> http::Request<()> {
    let uri = format!("http://localhost{target}");
    let mut request = http::Request::builder().method(method).uri(uri).body(()).expect("a request");
    if let Some(protocol) = protocol {
        request.extensions_mut().insert(Protocol::from_static(protocol));
    }
    request
}

async fn next(body: &mut h2::RecvStream) -> Option<Bytes> {
    let data = tokio::time::timeout(PATIENCE, body.data()).await.expect("in time");
    let data = data?.expect("a frame");
    body.flow_control().release_capacity(data.len()).expect("it was received");
    Some(data)
}

/// A client text frame (RFC 6455 section 5.2) with a zero mask.
fn text_frame(text: &str) -> Bytes {
    let length = 0x80 | u8::try_from(text.len()).expect("a short text");
    [&[0x81, length, 0, 0, 0, 0], text.as_bytes()].concat().into()
}

#[test]
fn a_websocket_works_over_http2_beside_other_streams() {
    let idle = Duration::from_millis(500);
    let timeouts = Timeouts { idle, ..Timeouts::default() };
    let (server, _) = serve(builder().timeouts(timeouts).routes(["/ws"]));
    with_worker(async {
        let mut client = connect(&server).await;
        let mut asked = request("CONNECT", "/ws", Some("websocket"));
        let version = http::HeaderValue::from_static("13");
        asked.headers_mut().insert("sec-websocket-version", version);
        let (reply, mut output) = client.send_request(asked, false).expect("sent");
        let reply = reply.await.expect("a reply");
        assert_eq!(reply.status(), 200);
        let mut input = reply.into_body();
        let echoed = Bytes::from_static(b"\x81\x05hello");
        output.send_data(text_frame("hello"), false).expect("sent");
        assert_eq!(next(&mut input).await, Some(echoed.clone()));
        server.wait_for_metric(UPGRADED, 1.0);
        server.wait_for_in_flight(0);
        let labels = "lane=\"0\",route=\"/ws\",method=\"CONNECT\",code=\"200\"";
        assert_eq!(server.metric(&format!("corelane_requests_total{{{labels}}}")), 1.0);
        // This new connection is closed because it is idle, but the upgraded connection stays open.
        let mut late = Client::connect(server.address);
        assert_eq!(late.get("/hello").status, 200);
        assert!(late.read_to_close().is_empty());
        let (reply, _) = client.send_request(get_of("/hello"), true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 200);
        output.send_data(text_frame("hello"), false).expect("sent");
        assert_eq!(next(&mut input).await, Some(echoed));

        server.handle.drain();
        assert_eq!(next(&mut input).await, Some(Bytes::from_static(b"\x88\x07\x03\xe9drain")));
        output.send_data(Bytes::from_static(b"\x88\x82\0\0\0\0\x03\xe9"), true).expect("sent");
        assert_eq!(next(&mut input).await.filter(|data| !data.is_empty()), None);
    });
    assert_eq!(server.join().expect("a clean end"), Drained { cut: 0 });
}

#[test]
fn a_stream_of_http2_ends_for_the_handler_with_its_client() {
    let (server, shared) = serve(builder());
    with_worker(async {
        let mut client = connect(&server).await;
        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, mut output) = client.send_request(connect, false).expect("sent");
        let mut input = reply.await.expect("a reply").into_body();
        output.send_data("hello".into(), false).expect("sent");
        assert_eq!(next(&mut input).await, Some("hello".into()));
        output.send_data(Bytes::new(), true).expect("sent");
        assert_eq!(next(&mut input).await, Some("end".into()));
        server.wait_for_metric(UPGRADED, 0.0);
        wait_for_handlers(&server, &shared);

        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, mut output) = client.send_request(connect, false).expect("sent");
        let _input = reply.await.expect("a reply").into_body();
        server.wait_for_metric(UPGRADED, 1.0);
        output.send_reset(h2::Reason::CANCEL);
        server.wait_for_metric(UPGRADED, 0.0);
        wait_for_handlers(&server, &shared);
    });
}

#[test]
fn connect_without_a_protocol_and_101_are_not_for_http2() {
    let (server, _) = serve(builder());
    with_worker(async {
        let mut client = connect(&server).await;
        let plain = http::Request::builder().method("CONNECT").uri("localhost:80").body(());
        let (reply, _) = client.send_request(plain.expect("a request"), true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 501);
        for protocol in [None, Some("echo")] {
            let method = if protocol.is_some() { "CONNECT" } else { "GET" };
            let (reply, _) =
                client.send_request(request(method, "/101", protocol), true).expect("sent");
            assert_eq!(reply.await.expect("a reply").status(), 500, "{protocol:?}");
        }
        let refused = request("CONNECT", "/nowhere", Some("echo"));
        let (reply, _) = client.send_request(refused, true).expect("sent");
        assert_eq!(reply.await.expect("a reply").status(), 404);
    });
    server.wait_for_metric(UPGRADED, 0.0);
}

#[test]
fn a_drain_cuts_a_stream_of_http2_that_does_not_end() {
    let deadline = Duration::from_millis(300);
    let drain = Drain { settle: Duration::ZERO, deadline, ..Drain::default() };
    let (server, shared) = serve(builder().drain(drain));
    let cut = with_worker(async {
        let mut client = connect(&server).await;
        let connect = request("CONNECT", "/echo", Some("echo"));
        let (reply, _output) = client.send_request(connect, false).expect("sent");
        let _input = reply.await.expect("a reply").into_body();
        server.wait_for_metric(UPGRADED, 1.0);
        server.handle.drain();
        server.join().expect("an end").cut
    });
    assert_eq!(cut, 1);
    assert_eq!(alive(&shared), 0);
}
