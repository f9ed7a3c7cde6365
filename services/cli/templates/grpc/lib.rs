//! Greetings over gRPC. Each lane has its own service.

use greeter::greeter_server::{Greeter, GreeterServer};
use greeter::{GreetReply, GreetRequest};
use tonic::{Request, Response, Status};

pub mod greeter {
    tonic::include_proto!("greeter.v1");
}

pub struct Greetings {
    greeting: String,
}

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
