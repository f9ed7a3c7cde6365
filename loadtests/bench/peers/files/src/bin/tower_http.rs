//! tower-http's ServeDir on hyper and tokio's current_thread runtime.

use std::io;

use clap::Parser;
use file_servers::FileOptions;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tower_http::services::ServeDir;

async fn accept(options: FileOptions) -> io::Result<()> {
    let listener = TcpListener::from_std(options.options.listener()?)?;
    let files = ServeDir::new(options.root);
    loop {
        let (socket, _) = listener.accept().await?;
        let service = TowerToHyperService::new(files.clone());
        // A connection that ends with an error is the client's affair.
        spawn_local(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

fn main() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, accept(FileOptions::parse()))
}
