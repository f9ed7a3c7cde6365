//! A minimal server: one function answers every request, with a lane per CPU.
//!
//! ```sh
//! cargo run --example hello 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/
//! ```

use std::convert::Infallible;

use bytes::Bytes;
use corelane::{Incoming, Server};
use http::{Request, Response};
use http_body_util::Full;

async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("Hello, World!\n")))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).build()?;
    println!("listening on {}", server.local_addr()?);
    // Blocks until SIGTERM or Ctrl-C, then drains.
    let drained = server.serve(|_lane| tower::service_fn(hello))?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
