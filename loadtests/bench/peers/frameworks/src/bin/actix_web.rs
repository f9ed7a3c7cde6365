//! actix-web: an event loop for each worker, and a thread that accepts.

use std::io;

use actix_web::http::header::ContentType;
use actix_web::{App, HttpResponse, HttpServer, rt, web};
use clap::Parser;
use peers::{BACKLOG, HELLO, IDLE, Options, Work};

async fn hello() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(HELLO)
}

async fn work(query: web::Query<Work>) -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body(query.reply())
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let app =
        || App::new().route("/hello", web::get().to(hello)).route("/work", web::get().to(work));
    rt::System::new().block_on(
        HttpServer::new(app)
            .workers(options.threads)
            .backlog(BACKLOG.into())
            .keep_alive(IDLE)
            .bind(options.listen)?
            .run(),
    )
}
