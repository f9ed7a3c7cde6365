//! The connected client: axum's `ConnectInfo`, TLS, and the client behind trusted proxies.
//!
//! ```sh
//! cargo run --features axum --example connect_info 127.0.0.1:8080
//! curl http://127.0.0.1:8080/peer
//! curl http://127.0.0.1:8080/connection
//! curl -H 'X-Forwarded-For: 203.0.113.9' http://127.0.0.1:8080/client
//! ```

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::HeaderMap;
use axum::routing::get;
use corelane::axum::ConnectInfoLayer;
use corelane::{ConnectionInfo, Server};

async fn peer(ConnectInfo(peer): ConnectInfo<SocketAddr>) -> String {
    format!("{}\n", peer.ip())
}

async fn connection(ConnectInfo(connection): ConnectInfo<ConnectionInfo>) -> String {
    let tls = connection.tls.map_or("no TLS", |tls| tls.version);
    format!("{:?}, {tls}\n", connection.protocol)
}

/// This works without a layer, because any code that runs for a request can call `client_addr`.
async fn client(headers: HeaderMap) -> String {
    match corelane::client_addr(&headers) {
        Some(address) => format!("{address}\n"),
        None => "unknown\n".to_owned(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder()
        .bind(address.parse()?)
        // A proxy on the same machine.
        .trusted_proxies(["127.0.0.0/8".parse()?, "::1".parse()?])
        .routes(["/peer", "/connection", "/client"])
        .build()?;
    println!("listening on {}", server.local_addr()?);
    let drained = server.serve(|_lane| {
        Router::new()
            .route("/peer", get(peer))
            .route("/connection", get(connection))
            .route("/client", get(client))
            .layer(ConnectInfoLayer)
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
