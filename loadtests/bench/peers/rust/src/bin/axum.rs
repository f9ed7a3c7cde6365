//! axum on tokio's multi-thread runtime, as `#[tokio::main]` starts it.

use std::io;

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt;
use clap::Parser;
use peers::frameworks::Command;
use peers::{HELLO, Work, half};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tower_http::services::ServeDir;

async fn hello() -> &'static str {
    HELLO
}

async fn div(Path(n): Path<String>) -> Result<String, StatusCode> {
    half(&n).ok_or(StatusCode::BAD_REQUEST)
}

async fn work(Query(work): Query<Work>) -> String {
    work.reply()
}

fn main() -> io::Result<()> {
    let command = Command::parse();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(command.options.threads).enable_all();
    builder.build()?.block_on(serve(command))
}

async fn serve(command: Command) -> io::Result<()> {
    let mut routes = Router::new()
        .route("/hello", get(hello))
        .route("/div/{n}", get(div))
        .route("/work", get(work))
        .route("/work/{name}", get(work));
    if let Some(folder) = &command.folder {
        routes = routes.nest_service("/static", ServeDir::new(folder));
    }
    // Otherwise, the end of a file would wait for the acknowledgement of its beginning (tcp(7)).
    let listener = TcpListener::from_std(command.options.listener()?)?.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    // Without this, the router would be rebuilt for each connection.
    axum::serve(listener, routes.into_make_service()).await
}
