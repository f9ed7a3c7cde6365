//! The start of a connection on a TLS port.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use rustls::ServerConfig;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::message::problem::Problem;
use crate::metrics::{Handshake, Refusal};
use crate::os::socket::{Socket, Tcp};
use crate::request::connection::Connection;
use crate::request::lane_state::LaneState;
use crate::transport::final_response::dismiss;
use crate::transport::stream::{self, Opened, Protocol};

/// Performs the handshake. `None`: there is no connection to serve, and failures are counted.
pub(crate) async fn accept(
    socket: TcpStream,
    config: Arc<ServerConfig>,
    connection: Rc<Connection>,
    lane: &LaneState,
) -> io::Result<Option<Opened>> {
    let mut first = [0];
    if poll_fn(|cx| socket.poll_peek(cx, &mut ReadBuf::new(&mut first))).await? == 0 {
        return Ok(None);
    }
    // Boxed, and only after the first byte: a handshake needs more than a kilobyte, which plain and
    // silent connections should not pay for.
    Box::pin(answer(first[0], socket, config, connection, lane)).await
}

/// Answers a client whose first byte is `first`.
async fn answer(
    first: u8,
    socket: TcpStream,
    config: Arc<ServerConfig>,
    connection: Rc<Connection>,
    lane: &LaneState,
) -> io::Result<Option<Opened>> {
    // A method starts with a letter, a TLS record with its type: 22 for a handshake (RFC 8446
    // section 5.1).
    if first.is_ascii_alphabetic() {
        lane.metrics().refuse(Refusal::PlainHttp);
        let problem = Problem::new(StatusCode::BAD_REQUEST, "plain-http")
            .detail("a plain HTTP request was sent to an HTTPS port");
        dismiss(lane, socket, problem).await;
        return Ok(None);
    }
    connection.begin_handshake();
    let stream = match TlsAcceptor::from(config).accept(Tcp::new(socket)).await {
        Ok(stream) => Box::new(stream),
        Err(error) => {
            lane.metrics().shake(Handshake::Failure);
            lane.metrics().refuse(Refusal::Handshake);
            tracing::debug!(lane = lane.index, %error, "a TLS handshake failed");
            return Err(error);
        }
    };
    lane.metrics().shake(Handshake::Success);
    connection.end_handshake(lane);
    let protocol = match stream.get_ref().1.alpn_protocol() {
        Some(b"h2") => Some(Protocol::Http2),
        Some(_) => Some(Protocol::Http1),
        None => None,
    };
    let socket = Socket::Tls(stream);
    match protocol {
        Some(protocol) => Ok(Some(Opened { protocol, socket, prefix: Default::default() })),
        None => stream::open(socket, connection).await,
    }
}
