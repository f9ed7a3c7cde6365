//! ntex on its tokio runtime: an event loop per worker, and a thread that accepts.

use std::io;

use clap::Parser;
use frameworks::{Command, TEXT};
use ntex::SharedCfg;
use ntex::http::{HttpServiceConfig, Method};
use ntex::time::Seconds;
use ntex::web::guard::fn_guard;
use ntex::web::types::{Path, Query};
use ntex::web::{self, App, HttpResponse, HttpServer, ServiceConfig};
use ntex_files::Files;
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
    let command = Command::parse();
    let options = command.options;
    let http = HttpServiceConfig::new().set_keepalive(Seconds(IDLE.as_secs() as u16));
    // Called once per worker.
    HttpServer::new(async move || App::new().configure(|config| routes(config, &command)))
        .workers(options.threads)
        .backlog(BACKLOG.into())
        .config(SharedCfg::new("peer").add(http))
        .bind(options.listen)?
        .run()
        .await
}

fn routes(config: &mut ServiceConfig, command: &Command) {
    config
        .route("/hello", web::get().to(hello))
        .route("/div/{n}", web::get().to(div))
        .route("/work", web::get().to(work));
    if let Some(folder) = &command.folder {
        // ntex-files 3.2.0 checks for `..` before decoding: without this, /static/%2e%2e/ leaves
        // the folder.
        let plain = fn_guard(|head| head.method == Method::GET && !head.uri.path().contains('%'));
        config.service(Files::new("/static", folder).index_file("index.html").use_guards(plain));
    }
}
