//! axum: on tokio's current_thread runtime with one thread, on its multi-thread one with more.

use std::io;

use clap::Parser;
use routes::Command;
use tokio::net::TcpListener;
use tokio::runtime::Builder;

fn main() -> io::Result<()> {
    let Command { options, routes } = Command::parse();
    let mut builder = match options.threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(options.threads).enable_all().build()?.block_on(async {
        let listener = TcpListener::from_std(options.listener()?)?;
        // Given the router itself, it would make a copy of all routes for each connection.
        axum::serve(listener, routes::axum_router(routes).into_make_service()).await
    })
}
