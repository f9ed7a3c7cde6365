//! An axum `Router` on lanes: state, a handler that blocks, and a request deadline.
//!
//! ```sh
//! cargo run --example axum_router 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/greet/Ada
//! curl -i http://127.0.0.1:8080/checksum/10000000
//! curl -i http://127.0.0.1:8080/left
//! ```

use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse;
use axum::routing::get;
use corelane::Server;
use corelane::axum::LearnRoutes;

#[derive(Clone)]
struct Settings {
    greeting: &'static str,
}

async fn greet(State(settings): State<Settings>, Path(name): Path<String>) -> String {
    format!("{}, {name}!\n", settings.greeting)
}

/// The computation takes a long time, so it runs on a thread of the lane's pool while the lane
/// serves other requests.
async fn checksum(Path(rounds): Path<u64>) -> Result<String, impl IntoResponse> {
    let mix = |sum: u64, n: u64| (sum ^ n).wrapping_mul(0x0000_0100_0000_01b3); // FNV-1a's prime
    let sum = corelane::blocking(move || (0..rounds).fold(0xcbf2_9ce4_8422_2325, mix));
    match sum.await {
        Ok(sum) => Ok(format!("{sum:016x}\n")),
        Err(full) => Err((StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], full.to_string())),
    }
}

/// A handler that calls other services passes on the remaining time.
async fn left() -> String {
    let left = corelane::deadline().map(|at| at.saturating_duration_since(Instant::now()));
    format!("{:.1} s left\n", left.unwrap_or_default().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).build()?;
    println!("listening on {}", server.local_addr()?);
    let drained = server.serve(|_lane| {
        Router::new()
            .route("/greet/{name}", get(greet))
            .route("/checksum/{rounds}", get(checksum))
            .route("/left", get(left))
            // Lanes learn the cost of a request from its route.
            .layer(LearnRoutes)
            .with_state(Settings { greeting: "Hello" })
    })?;
    println!("drained; {} requests were cut", drained.cut);
    Ok(())
}
