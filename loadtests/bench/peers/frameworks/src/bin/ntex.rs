//! ntex on its tokio runtime: an event loop for each worker, and a thread that accepts.

use std::io;

use clap::Parser;
use ntex::SharedCfg;
use ntex::http::HttpServiceConfig;
use ntex::time::Seconds;
use ntex::web::{self, App, HttpResponse, HttpServer};
use peers::{BACKLOG, HELLO, IDLE, Options, Work};

const TEXT: &str = "text/plain; charset=utf-8";

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(HELLO)
}

async fn work(query: web::types::Query<Work>) -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(query.reply())
}

#[ntex::main]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    let http = HttpServiceConfig::new().set_keepalive(Seconds(IDLE.as_secs() as u16));
    HttpServer::new(async || {
        App::new().route("/hello", web::get().to(hello)).route("/work", web::get().to(work))
    })
    .workers(options.threads)
    .backlog(BACKLOG.into())
    .config(SharedCfg::new("peer").add(http))
    .bind(options.listen)?
    .run()
    .await
}
