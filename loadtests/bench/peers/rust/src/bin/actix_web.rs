//! actix-web: an event loop per worker, and a thread that accepts.

use std::io;

use actix_files::Files;
use actix_web::error::ErrorBadRequest;
use actix_web::http::header::ContentType;
use actix_web::web::{self, Path, ServiceConfig};
use actix_web::{App, HttpResponse, HttpServer, rt};
use clap::Parser;
use peers::frameworks::Command;
use peers::{BACKLOG, HELLO, IDLE, Work, half};

/// Files below this size are read on the event loop: passing the read to another thread costs more
/// than copying them from the page cache. actix-files recommends choosing this size according to
/// the served files.
const READ_AT_ONCE: u64 = 64 << 10;

async fn hello() -> HttpResponse {
    text(HELLO)
}

async fn div(n: Path<String>) -> actix_web::Result<HttpResponse> {
    half(&n).map(text).ok_or_else(|| ErrorBadRequest("no decimal number"))
}

async fn work(query: web::Query<Work>) -> HttpResponse {
    text(query.reply())
}

fn text(body: impl actix_web::body::MessageBody + 'static) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(body)
}

fn main() -> io::Result<()> {
    let command = Command::parse();
    let options = command.options;
    rt::System::new().block_on(async move {
        // Called once per worker.
        let app = move || App::new().configure(|config| routes(config, &command));
        HttpServer::new(app)
            .workers(options.threads)
            .backlog(BACKLOG.into())
            .keep_alive(IDLE)
            .tcp_nodelay(true)
            .bind(options.listen)?
            .run()
            .await
    })
}

fn routes(config: &mut ServiceConfig, command: &Command) {
    config
        .route("/hello", web::get().to(hello))
        .route("/div/{n}", web::get().to(div))
        .route("/work", web::get().to(work))
        .route("/work/{name}", web::get().to(work));
    if let Some(folder) = &command.folder {
        let files = Files::new("/static", folder).index_file("index.html");
        config.service(files.read_mode_threshold(READ_AT_ONCE));
    }
}
