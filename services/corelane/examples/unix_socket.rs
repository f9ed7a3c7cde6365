//! Several listeners: a TCP address, and a Unix socket for a proxy on the same machine.
//!
//! ```sh
//! cargo run --example unix_socket 127.0.0.1:8080 unix:/tmp/corelane.sock
//! curl http://127.0.0.1:8080/
//! curl --unix-socket /tmp/corelane.sock http://localhost/
//! # A socket that somebody else opened:
//! systemd-socket-activate -l 8081 target/debug/examples/unix_socket inherited:
//! ```

use std::convert::Infallible;

use bytes::Bytes;
use corelane::{Incoming, Listen, Server};
use http::{Request, Response};
use http_body_util::Full;

async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = match corelane::connection().and_then(|connection| connection.peer) {
        Some(peer) => format!("hello, {}\n", peer.ip()),
        None => "hello, neighbour\n".to_owned(),
    };
    Ok(Response::new(Full::from(text)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut places: Vec<Listen> =
        std::env::args().skip(1).map(|place| place.parse()).collect::<Result<_, _>>()?;
    if places.is_empty() {
        places = vec!["127.0.0.1:8080".parse()?, Listen::unix("/tmp/corelane.sock")];
    }
    let builder = places.into_iter().fold(Server::builder(), corelane::Builder::listen);
    let server = builder.build()?;
    for address in server.local_addrs()? {
        println!("listening on {address}");
    }
    let drained = server.serve(|_lane| tower::service_fn(hello))?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
