//! axum: on tokio's current_thread runtime with one thread, on its multi-thread one with more.

use std::io;

use axum::Router;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt;
use clap::Parser;
use frameworks::Command;
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
    let threads = command.options.threads;
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().build()?.block_on(serve(command))
}

async fn serve(command: Command) -> io::Result<()> {
    let mut routes = Router::new()
        .route("/hello", get(hello))
        .route("/div/{n}", get(div))
        .route("/work", get(work));
    if let Some(folder) = &command.folder {
        routes = routes.nest_service("/static", ServeDir::new(folder));
    }
    let listener = TcpListener::from_std(command.options.listener()?)?;
    // A file is written after its head. Without this, it may wait for the acknowledgement of the
    // head (tcp(7)).
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    // A plain router would be rebuilt for each connection.
    axum::serve(listener, routes.into_make_service()).await
}
