//! actix-files: an event loop for each worker, and a thread that accepts.

use std::io;

use actix_files::Files;
use actix_web::{App, HttpServer, rt};
use clap::Parser;
use file_servers::FileOptions;
use peers::{BACKLOG, IDLE};

fn main() -> io::Result<()> {
    let FileOptions { options, root } = FileOptions::parse();
    let app = move || App::new().service(Files::new("/", &root).index_file("index.html"));
    rt::System::new().block_on(
        HttpServer::new(app)
            .workers(options.threads)
            .backlog(BACKLOG.into())
            .keep_alive(IDLE)
            .bind(options.listen)?
            .run(),
    )
}
