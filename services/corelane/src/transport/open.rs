//! Opens connections: the TLS handshake, and the detection of the protocol.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::TcpStream;

use crate::os::socket::Socket;
use crate::request::connection::Connection;
use crate::request::service::HttpService;
use crate::transport::connections::Connections;
use crate::transport::handshake;
use crate::transport::host::LaneService;
use crate::transport::plain::go_on;
use crate::transport::registration::Registration;
use crate::transport::stream::{self, Opened, Protocol};

/// Serves a connection: detects its protocol, then starts a separate task for it. A task is always
/// as large as its largest state, and most connections are idle most of the time.
pub(crate) async fn serve<S: HttpService>(
    host: Rc<LaneService<S>>,
    registration: Registration,
    socket: TcpStream,
) {
    let opened = open(&host.connections, &registration.connection, socket).await;
    let Some(Opened { protocol, socket, prefix }) = opened else { return };
    match protocol {
        Protocol::Http1 => go_on(&host, registration, socket, prefix),
        Protocol::Http2 => host.serve_http2(registration, socket, prefix),
    }
}

/// Performs the TLS handshake if TLS is configured, and detects the protocol. `None`: there is no
/// connection to serve.
async fn open(
    connections: &Connections,
    connection: &Rc<Connection>,
    socket: TcpStream,
) -> Option<Opened> {
    let lane = &*connections.lane;
    let ours = Rc::clone(connection);
    let opened = async {
        match &connections.tls {
            None => stream::open(Socket::Plain(socket), ours).await,
            Some(tls) => handshake::accept(socket, Arc::clone(&tls.config), ours, lane).await,
        }
    };
    tokio::select! {
        biased;
        opened = opened => opened.ok().flatten(),
        _ = poll_fn(|cx| connection.poll_order(cx)) => None,
    }
}
