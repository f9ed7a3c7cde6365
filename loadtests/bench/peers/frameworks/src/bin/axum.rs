//! axum: on tokio's current_thread runtime with one thread, on its multi-thread one with more.

use std::io;

use axum::Router;
use axum::extract::Query;
use axum::routing::get;
use clap::Parser;
use peers::{HELLO, Options, Work};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

async fn hello() -> &'static str {
    HELLO
}

async fn work(Query(work): Query<Work>) -> String {
    work.reply()
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let mut builder = match options.threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(options.threads).enable_all().build()?.block_on(async {
        let listener = TcpListener::from_std(options.listener()?)?;
        let routes = Router::new().route("/hello", get(hello)).route("/work", get(work));
        axum::serve(listener, routes).await
    })
}
