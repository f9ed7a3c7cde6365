//! Limits, timeouts, an admin port, and a drain that the program starts itself.
//!
//! ```sh
//! cargo run --example graceful 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/
//! curl -i http://127.0.0.1:8080/slow &      # is answered, although the server drains meanwhile
//! curl -i -X POST http://127.0.0.1:8080/drain
//! ```
//!
//! SIGTERM and Ctrl-C start the same drain; a second signal terminates the server immediately.

use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use corelane::{Drain, Lanes, Limits, Server, Timeouts};

/// Longer than the drain's settle time, shorter than its deadline.
async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(2)).await;
    "done\n"
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder()
        .bind(address.parse()?)
        .admin("127.0.0.1:0".parse()?) // /readyz fails as soon as a drain starts
        .routes(["/", "/slow", "/drain"]) // lanes learn their costs separately
        .lanes(Lanes::Count(2))
        .limits(Limits { connections: 1000, body_bytes: 64 << 10, ..Limits::default() })
        .timeouts(Timeouts { request: Duration::from_secs(10), ..Timeouts::default() })
        // Accept connections for another second, so that load balancers can remove this server.
        .drain(Drain { settle: Duration::from_secs(1), ..Drain::default() })
        .build()?;
    println!("listening on {}", server.local_addr()?);
    if let Some(admin) = server.admin_addr() {
        println!("admin port on {admin}");
    }
    let handle = server.handle();
    let drained = server.serve(move |_lane| {
        let handle = handle.clone();
        let drain = async move || {
            handle.drain();
            "draining\n"
        };
        Router::new()
            .route("/", get(async || "hello\n"))
            .route("/slow", get(slow))
            .route("/drain", post(drain))
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(if drained.cut == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
