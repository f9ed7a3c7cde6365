//! The service that `cart` calls. An order takes a few milliseconds, as if from a database.
//!
//! ```sh
//! cargo run -p corelane-examples --bin orders -- --listen 127.0.0.1:8082 --admin.listen 127.0.0.1:8083
//! curl http://127.0.0.1:8082/orders/7
//! ```

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use corelane_service::value::{HOUR, MILLISECOND};
use corelane_service::{App, settings, value};

settings! {
    struct Orders {
        "order.takes" => takes: Duration = "5ms", value::duration(MILLISECOND, HOUR), "Time for an order";
    }
}

#[derive(Clone)]
struct Desk {
    takes: Duration,
    replica: Arc<str>,
}

/// Responds with the time that the caller has left.
async fn order(State(desk): State<Desk>, Path(id): Path<u64>) -> String {
    tokio::time::sleep(desk.takes).await;
    let left = corelane::deadline().map(|at| at.saturating_duration_since(Instant::now()));
    let left = left.unwrap_or(Duration::MAX).as_millis();
    format!("order {id}: {left} ms left at {}\n", desk.replica)
}

fn main() -> ExitCode {
    let app = App::<Orders>::new("orders", env!("CARGO_PKG_VERSION"), "Orders for carts");
    app.routes(["/orders/{id}"]).run(|Orders { takes }, start| {
        let (faults, desk) = (start.faults(), Desk { takes, replica: start.replica().into() });
        println!("listening on {}", start.server().local_addr()?);
        let drained = start.serve(move |lane| {
            let router = Router::new().route("/orders/{id}", get(order));
            router.layer(faults.lane(lane.index())).with_state(desk.clone())
        })?;
        println!("drained; {} requests were cut", drained.cut);
        Ok(drained)
    })
}
