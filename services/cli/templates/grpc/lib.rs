//! Greetings over gRPC. Each lane has a service of its own.

use greeter::greeter_server::{Greeter, GreeterServer};
use greeter::{GreetReply, GreetRequest};
use tonic::{Request, Response, Status};

/// What is generated from `proto/greeter.proto`.
pub mod greeter {
    tonic::include_proto!("greeter.v1");
}

/// The state of a lane.
pub struct Greetings {
    greeting: String,
}

/// The service of one lane.
pub fn service(greeting: String) -> GreeterServer<Greetings> {
    GreeterServer::new(Greetings { greeting })
}

#[tonic::async_trait]
impl Greeter for Greetings {
    async fn greet(&self, call: Request<GreetRequest>) -> Result<Response<GreetReply>, Status> {
        let GreetRequest { name } = call.into_inner();
        if name.is_empty() {
            return Err(Status::invalid_argument("name is empty"));
        }
        Ok(Response::new(GreetReply { text: format!("{} {name}", self.greeting) }))
    }
}
