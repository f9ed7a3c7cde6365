use std::io::ErrorKind::NotConnected;
use std::pin::pin;
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use super::*;

/// Runs part of a test on a thread with its own event loop, like a lane.
fn lane<T: Send + 'static>(part: impl AsyncFnOnce() -> T + Send + 'static) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(part())
    };
    thread::spawn(run).join().expect("the part ends well")
}

fn plain() -> (Socket, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = std::net::TcpStream::connect(listener.local_addr().expect("its address"));
    let (server, _) = listener.accept().expect("a connection");
    server.set_nonblocking(true).expect("a socket that does not block");
    let server = TcpStream::from_std(server).expect("a lane");
    (Socket::Plain(server), client.expect("a connection"))
}

async fn secure() -> (Socket, client::TlsStream<TcpStream>) {
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(pair.cert.der().clone()).expect("a root");
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let connect = async {
        let tcp = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(client)).connect(name, tcp).await
    };
    let accept = async {
        let (tcp, _) = listener.accept().await?;
        TlsAcceptor::from(Arc::new(server)).accept(Tcp::new(tcp)).await
    };
    let (server, client) = tokio::try_join!(accept, connect).expect("a handshake");
    (Socket::Tls(Box::new(server)), client)
}

/// Polls one read, which must be pending.
fn wait(socket: &mut Socket) {
    let mut byte = [0];
    let mut buf = ReadBuf::new(&mut byte);
    let read = Pin::new(socket).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
    assert!(read.is_pending(), "nothing was sent");
}

async fn read(mut socket: impl AsyncRead + Unpin, length: usize) -> String {
    let mut bytes = vec![0; length];
    socket.read_exact(&mut bytes).await.expect("bytes");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_socket_moves_to_another_lane_with_the_bytes_that_came_in_between() {
    let (still, mut client) = lane(async move || {
        let (mut socket, client) = plain();
        wait(&mut socket);
        assert!(socket.is_quiet());
        (socket.rest().expect("rest"), client)
    });
    assert!(!still.is_tls());
    client.write_all(b"hello").expect("written at rest");
    lane(async move || {
        let mut socket = still.wake().expect("awake");
        assert_eq!(read(&mut socket, 5).await, "hello");
        client.write_all(b"again").expect("written after it");
        assert_eq!(read(&mut socket, 5).await, "again");
    });
}

#[test]
fn tls_moves_to_another_lane_with_its_state() {
    let (still, client) = lane(async move || {
        let (mut socket, mut client) = secure().await;
        client.write_all(b"one").await.expect("written");
        assert_eq!(read(&mut socket, 3).await, "one");
        wait(&mut socket);
        assert!(socket.is_quiet());
        let client = client.into_inner();
        (socket.rest().expect("rest"), (client.0.into_std().expect("a socket"), client.1))
    });
    assert!(still.is_tls());
    lane(async move || {
        let (mut tcp, mut session) = client;
        session.writer().write_all(b"two").expect("written at rest");
        session.write_tls(&mut tcp).expect("sent");
        let mut socket = still.wake().expect("awake");
        assert_eq!(read(&mut socket, 3).await, "two");
        socket.write_all(b"three").await.expect("written");
        socket.flush().await.expect("sent");
        tcp.set_nonblocking(false).expect("a socket that blocks");
        let mut reply = Vec::new();
        while reply.len() < 5 {
            session.read_tls(&mut tcp).expect("read");
            session.process_new_packets().expect("records");
            let mut bytes = [0; 5];
            if let Ok(n) = std::io::Read::read(&mut session.reader(), &mut bytes) {
                reply.extend_from_slice(&bytes[..n]);
            }
        }
        assert_eq!(reply, b"three");
    });
}

#[test]
fn tls_with_bytes_that_nobody_read_is_not_quiet_and_keeps_them() {
    let still = lane(async move || {
        let (mut socket, mut client) = secure().await;
        client.write_all(b"request").await.expect("written");
        assert_eq!(read(&mut socket, 3).await, "req");
        assert!(!socket.is_quiet(), "the socket does not signal what TLS has decrypted");
        (socket.rest().expect("rest"), client.into_inner().0.into_std().expect("a socket"))
    });
    lane(async move || {
        let mut socket = still.0.wake().expect("awake");
        assert_eq!(read(&mut socket, 4).await, "uest");
        wait(&mut socket);
        assert!(socket.is_quiet());
    });
}

#[test]
fn tls_whose_client_said_its_last_word_is_not_quiet() {
    lane(async move || {
        let (mut socket, mut client) = secure().await;
        client.shutdown().await.expect("close_notify");
        assert_eq!(socket.read(&mut [0]).await.expect("an end"), 0);
        assert!(!socket.is_quiet());
    });
}

#[test]
fn tls_that_failed_is_not_quiet() {
    lane(async move || {
        let (mut socket, client) = secure().await;
        let mut tcp = client.into_inner().0;
        tcp.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("no TLS");
        assert!(socket.read(&mut [0]).await.is_err());
        assert!(!socket.is_quiet());
    });
}

#[test]
fn a_stream_that_left_its_lane_cannot_be_used() {
    lane(async move || {
        let (Socket::Plain(stream), _client) = plain() else { panic!("a plain socket") };
        let mut tcp = Tcp::new(stream);
        let _still = tcp.leave().expect("a stream");
        let mut read = pin!(tcp.read_u8());
        let read = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(read, Poll::Ready(Err(error)) if error.kind() == NotConnected));
        assert_eq!(tcp.leave().expect_err("gone").kind(), NotConnected);
    });
}
