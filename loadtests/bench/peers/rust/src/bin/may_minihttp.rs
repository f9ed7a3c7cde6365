//! may_minihttp: stackful coroutines, one for each connection.

use std::io;

use clap::Parser;
use may_minihttp::{HttpServer, HttpService, Request, Response};
use peers::frameworks::Command;
use peers::{HELLO, Work, half};

/// Stacks that are kept for reuse, as in its TechEmpower entry.
const POOL: usize = 1000;

#[derive(Clone)]
struct Service;

impl HttpService for Service {
    fn call(&mut self, request: Request, reply: &mut Response) -> io::Result<()> {
        reply.header("Content-Type: text/plain; charset=utf-8");
        let path = request.path();
        if path == "/hello" {
            reply.body(HELLO);
        } else if let Some(n) = path.strip_prefix("/div/") {
            match half(n) {
                Some(half) => reply.body_vec(half.into_bytes()),
                None => bad_request(reply),
            }
        } else if path.starts_with("/work") {
            match Work::of(path) {
                Some(work) => reply.body_vec(work.reply().into_bytes()),
                None => bad_request(reply),
            }
        } else {
            reply.status_code(404, "Not Found");
        }
        Ok(())
    }
}

fn bad_request(reply: &mut Response) {
    reply.status_code(400, "Bad Request");
}

fn main() -> io::Result<()> {
    let options = Command::parse().options;
    may::config().set_workers(options.threads).set_pool_capacity(POOL);
    let server = HttpServer(Service).start(options.listen)?;
    server.join().map_err(|_| io::Error::other("the server panicked"))
}
