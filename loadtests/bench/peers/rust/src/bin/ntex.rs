//! ntex on its tokio runtime: an event loop per worker, and a thread that accepts.

use std::io;

use clap::Parser;
use ntex::SharedCfg;
use ntex::http::HttpServiceConfig;
use ntex::time::Seconds;
use ntex::web::types::{Path, Query};
use ntex::web::{self, App, HttpResponse, HttpServer, ServiceConfig};
use peers::frameworks::{Command, TEXT};
use peers::{BACKLOG, HELLO, IDLE, Work, half};

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(HELLO)
}

async fn div(n: Path<String>) -> HttpResponse {
    match half(&n) {
        Some(half) => HttpResponse::Ok().content_type(TEXT).body(half),
        None => HttpResponse::BadRequest().finish(),
    }
}

async fn work(query: Query<Work>) -> HttpResponse {
    HttpResponse::Ok().content_type(TEXT).body(query.reply())
}

#[ntex::main]
async fn main() -> io::Result<()> {
    let options = Command::parse().options;
    let http = HttpServiceConfig::new().set_keepalive(Seconds(IDLE.as_secs() as u16));
    // Called once per worker.
    HttpServer::new(async || App::new().configure(routes))
        .workers(options.threads)
        .backlog(BACKLOG.into())
        .config(SharedCfg::new("peer").add(http))
        .bind(options.listen)?
        .run()
        .await
}

fn routes(config: &mut ServiceConfig) {
    config
        .route("/hello", web::get().to(hello))
        .route("/div/{n}", web::get().to(div))
        .route("/work", web::get().to(work))
        .route("/work/{name}", web::get().to(work));
}
