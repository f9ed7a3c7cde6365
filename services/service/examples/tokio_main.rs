//! A program that was written before it used the platform, with its own tokio runtime, log, flag
//! and variable. The platform's keys are flags after `--`.
//!
//! ```sh
//! PORT=8090 cargo run -p corelane-service --example tokio_main -- --step=2 -- --lanes=1
//! ```

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use corelane::Incoming;
use corelane_service::App;
use http::{Request, Response};

async fn counter(step: u64) -> Arc<AtomicU64> {
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ticks);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            counted.fetch_add(step, Relaxed);
        }
    });
    ticks
}

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let own = arguments.by_ref().take_while(|argument| argument != "--");
    let step = own.filter_map(|argument| argument.strip_prefix("--step=")?.parse().ok()).last();
    let port = std::env::var("PORT").unwrap_or_else(|_| "8080".to_owned());

    let ours = counter(step.unwrap_or(1)).await;
    App::<()>::new("tokio_main", env!("CARGO_PKG_VERSION"), "Counts")
        .arguments(arguments)
        .preset("listen", format!("127.0.0.1:{port}"))
        .run(|(), start| {
            let aside = start.block_on(counter(1))?;
            let last = Arc::clone(&aside);
            start.after_drain(async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                tracing::info!(count = last.load(Relaxed), "the last count");
            });
            Ok(start.serve(move |_lane| {
                let counters = [Arc::clone(&ours), Arc::clone(&aside)];
                tower::service_fn(move |_request: Request<Incoming>| {
                    let [ours, aside] = counters.each_ref().map(|counter| counter.load(Relaxed));
                    let reply = Response::new(format!("{ours} {aside}\n"));
                    async move { Ok::<_, Infallible>(reply) }
                })
            })?)
        })
}
