//! A plain `tower::Service` in a program that has a tokio runtime already, and a task of its own.
//!
//! ```sh
//! cargo run -p corelane-service --example tokio_main
//! ```

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use corelane::Incoming;
use corelane_service::App;
use http::{Request, Response};

#[tokio::main]
async fn main() -> ExitCode {
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ticks);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            counted.fetch_add(1, Relaxed);
        }
    });
    App::<()>::new("tokio_main", env!("CARGO_PKG_VERSION"), "Counts").run(|(), start| {
        Ok(start.serve(move |_lane| {
            let ticks = Arc::clone(&ticks);
            tower::service_fn(move |_request: Request<Incoming>| {
                let reply = Response::new(format!("{}\n", ticks.load(Relaxed)));
                async move { Ok::<_, Infallible>(reply) }
            })
        })?)
    })
}
