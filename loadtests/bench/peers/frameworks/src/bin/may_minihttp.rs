//! may_minihttp: stackful coroutines, one for each connection.

use std::io;

use clap::Parser;
use may_minihttp::{HttpServer, HttpService, Request, Response};
use peers::{HELLO, Options, Work};

#[derive(Clone)]
struct Service;

impl HttpService for Service {
    fn call(&mut self, request: Request, reply: &mut Response) -> io::Result<()> {
        reply.header("Content-Type: text/plain; charset=utf-8");
        if request.path() == "/hello" {
            reply.body(HELLO);
        } else if let Some(work) = request.path().strip_prefix("/work?").and_then(Work::parse) {
            reply.body_vec(work.reply().into_bytes());
        } else {
            reply.status_code(404, "Not Found");
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    may::config().set_workers(options.threads);
    let server = HttpServer(Service).start(options.listen)?;
    server.join().map_err(|_| io::Error::other("the server panicked"))
}
