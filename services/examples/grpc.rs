//! A gRPC service on lanes, with state of its own in each: a call with one reply, and one with many.
//!
//! The messages and the routing by path are what `protoc` would generate from this:
//!
//! ```text
//! service Counter {
//!   rpc Add (Number) returns (Number);
//!   rpc CountTo (Number) returns (stream Number);
//! }
//! ```
//!
//! ```sh
//! cargo run -p corelane-examples --bin grpc 127.0.0.1:8080
//! ```

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use corelane::{Incoming, Server};
use http::{Request, Response};
use tokio_stream::StreamExt;
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

type Codec = ProstCodec<Number, Number>;

/// The sum of one lane: no lock, because no other thread accesses it.
#[derive(Clone, Default)]
struct Counter(Rc<Cell<u64>>);

impl Counter {
    fn add(&self, number: Number) -> Number {
        let value = self.0.get().wrapping_add(number.value);
        self.0.set(value);
        Number { value }
    }

    /// Routes a call by its path, as generated code does.
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        Ok(match path.as_str() {
            "/example.Counter/Add" => {
                // A path without parameters is its own template.
                corelane::set_route("/example.Counter/Add");
                let add = tower::service_fn(move |call: tonic::Request<Number>| {
                    let sum = tonic::Response::new(self.add(call.into_inner()));
                    async move { Ok::<_, Status>(sum) }
                });
                Grpc::new(Codec::default()).unary(add, request).await
            }
            "/example.Counter/CountTo" => {
                corelane::set_route("/example.Counter/CountTo");
                let count = tower::service_fn(async |call: tonic::Request<Number>| {
                    let numbers = tokio_stream::iter(1..=call.into_inner().value);
                    let numbers = numbers.map(|value| Ok::<_, Status>(Number { value }));
                    Ok::<_, Status>(tonic::Response::new(numbers))
                });
                Grpc::new(Codec::default()).server_streaming(count, request).await
            }
            _ => Status::unimplemented(path).into_http(),
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).build()?;
    println!("listening on {}", server.local_addr()?);
    let drained = server.serve(|_lane| {
        let counter = Counter::default();
        tower::service_fn(move |request| counter.clone().answer(request))
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
