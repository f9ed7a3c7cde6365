//! A gRPC service with separate state on each lane and with every kind of call: single messages and
//! streams in either direction. Responses name the lane that served them.
//!
//! The messages and the routing by path match what `protoc` would generate from this definition:
//!
//! ```text
//! service Counter {
//!   rpc Add (Number) returns (Number);
//!   rpc CountTo (Number) returns (stream Number);
//!   rpc AddAll (stream Number) returns (Number);
//!   rpc Sums (stream Number) returns (stream Number);
//! }
//! ```
//!
//! ```sh
//! cargo run -p corelane-examples --bin grpc -- --listen 127.0.0.1:8080
//! ```

use std::cell::Cell;
use std::convert::Infallible;
use std::process::ExitCode;
use std::rc::Rc;

use corelane::Incoming;
use corelane_service::App;
use http::{Request, Response};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Number {
    #[prost(uint64, tag = "1")]
    value: u64,
}

type Codec = ProstCodec<Number, Number>;

/// One lane's sum. It needs no lock, because no other thread accesses it.
#[derive(Clone, Default)]
struct Counter(Rc<Cell<u64>>);

impl Counter {
    fn add(&self, number: Number) -> Number {
        let value = self.0.get().wrapping_add(number.value);
        self.0.set(value);
        Number { value }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        let mut grpc = Grpc::new(Codec::default());
        Ok(match path.as_str() {
            "/example.Counter/Add" => {
                // A path without parameters is its own template.
                corelane::set_route("/example.Counter/Add");
                let add = tower::service_fn(move |call: tonic::Request<Number>| {
                    let sum = tonic::Response::new(self.add(call.into_inner()));
                    async move { Ok::<_, Status>(sum) }
                });
                grpc.unary(add, request).await
            }
            "/example.Counter/CountTo" => {
                corelane::set_route("/example.Counter/CountTo");
                let count = tower::service_fn(async |call: tonic::Request<Number>| {
                    let numbers = tokio_stream::iter(1..=call.into_inner().value);
                    let numbers = numbers.map(|value| Ok::<_, Status>(Number { value }));
                    Ok::<_, Status>(tonic::Response::new(numbers))
                });
                grpc.server_streaming(count, request).await
            }
            "/example.Counter/AddAll" => {
                corelane::set_route("/example.Counter/AddAll");
                let add = tower::service_fn(async |call: tonic::Request<Streaming<Number>>| {
                    let mut numbers = sums(call.into_inner());
                    let mut last = Number::default();
                    while let Some(sum) = numbers.next().await {
                        last = sum?;
                    }
                    Ok::<_, Status>(tonic::Response::new(last))
                });
                grpc.client_streaming(add, request).await
            }
            "/example.Counter/Sums" => {
                corelane::set_route("/example.Counter/Sums");
                let add = tower::service_fn(async |call: tonic::Request<Streaming<Number>>| {
                    Ok::<_, Status>(tonic::Response::new(sums(call.into_inner())))
                });
                grpc.streaming(add, request).await
            }
            // A response with the status SERVING has the same bytes as the number 1.
            "/grpc.health.v1.Health/Check" => {
                corelane::set_route("/grpc.health.v1.Health/Check");
                let check = tower::service_fn(async |_: tonic::Request<Number>| {
                    Ok::<_, Status>(tonic::Response::new(Number { value: 1 }))
                });
                grpc.unary(check, request).await
            }
            _ => Status::unimplemented(path).into_http(),
        })
    }
}

fn sums(numbers: Streaming<Number>) -> impl Stream<Item = Result<Number, Status>> {
    let mut sum = Number::default();
    numbers.map(move |number| {
        sum.value = sum.value.wrapping_add(number?.value);
        Ok(sum)
    })
}

fn main() -> ExitCode {
    let app = App::<()>::new("grpc", env!("CARGO_PKG_VERSION"), "Counts, over gRPC");
    app.run(|(), start| {
        println!("listening on {}", start.server().local_addr()?);
        let drained = start.serve(|_lane| {
            let counter = Counter::default();
            tower::service_fn(move |request| counter.clone().answer(request))
        })?;
        println!("drained; {} requests were cut", drained.cut);
        Ok(drained)
    })
}
