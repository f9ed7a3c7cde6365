//! Calls another service, `orders`, with a client for each lane.
//!
//! ```sh
//! cargo run -p corelane-examples --bin cart -- --orders.url http://127.0.0.1:8082
//! curl -i http://127.0.0.1:8080/orders/7
//! ```

use std::process::ExitCode;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use corelane::Lane;
use corelane_client::{Calls, Client, Error, Target};
use corelane_service::{App, settings, value};

settings! {
    struct Cart {
        "orders.url" => orders: Target = "http://127.0.0.1:8082", value::word::<Target>, "URL of the orders service";
    }
}

/// An error becomes a 503 or 502 response.
async fn order(
    State(orders): State<Client>,
    Path(id): Path<u64>,
) -> Result<(StatusCode, Bytes), Error> {
    let reply = orders.get(&format!("/orders/{id}")).await?;
    Ok((reply.status(), reply.into_body()))
}

fn main() -> ExitCode {
    let app = App::<Cart>::new("cart", env!("CARGO_PKG_VERSION"), "A cart with orders");
    app.routes(["/orders/{id}"]).run(|cart, start| {
        let calls = Calls::new();
        start.registry().register_collector(Box::new(calls.clone()));
        let orders = calls.service("orders", cart.orders)?;
        let router = move |_: &Lane| {
            Router::new().route("/orders/{id}", get(order)).with_state(orders.lane())
        };
        println!("listening on {}", start.server().local_addr()?);
        let drained = start.serve(router)?;
        println!("drained; {} requests were cut", drained.cut);
        Ok(drained)
    })
}
