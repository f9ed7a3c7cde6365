//! A small shop with axum: its own settings, secret and metric, orders behind a bearer token, and
//! faults for drills.
//!
//! ```sh
//! cargo run -p corelane-service --example shop -- --shop.greeting hello
//! curl -i http://127.0.0.1:8080/ && curl http://127.0.0.1:8081/metrics | grep shop_
//! ```

use std::process::ExitCode;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use corelane::prometheus_client::metrics::counter::Counter;
use corelane_service::value::{ExposeSecret, SecretString};
use corelane_service::{App, settings, value};

settings! {
    struct Shop {
        "shop.greeting" => greeting: String = "welcome", value::text, "Text of the front page";
        "shop.articles" => articles: u64 = "100", value::number(1, 1_000_000), "Number of articles";
        "shop.api_token" => api_token: SecretString = "", value::secret, "Token of the suppliers' API; never shown";
    }
}

#[derive(Clone)]
struct Stock {
    greeting: String,
    articles: u64,
    orders: Counter,
    api_token: SecretString,
}

async fn front_page(State(stock): State<Stock>) -> String {
    stock.greeting + "\n"
}

async fn order(State(stock): State<Stock>, Path(article): Path<u64>) -> (StatusCode, String) {
    // A bug that shows how the log reports a panic.
    assert_ne!(article, 13, "nobody buys this one");
    if !(1..=stock.articles).contains(&article) {
        return (StatusCode::NOT_FOUND, "no such article\n".to_owned());
    }
    // A real shop would send the token's text to its suppliers here.
    let supplied = !stock.api_token.expose_secret().is_empty();
    (StatusCode::OK, format!("order {}, supplied: {supplied}\n", stock.orders.inc() + 1))
}

fn main() -> ExitCode {
    let app = App::new("shop", env!("CARGO_PKG_VERSION"), "A small shop");
    app.routes(["/", "/orders/{article}"]).run(|Shop { greeting, articles, api_token }, start| {
        let stock = Stock { greeting, articles, orders: Counter::default(), api_token };
        start.registry().register("shop_orders", "Orders that were placed", stock.orders.clone());
        let (auth, faults) = (start.auth(), start.faults());
        Ok(start.serve(move |lane| {
            Router::new()
                .route("/orders/{article}", put(order).layer(auth.lane()))
                .route("/", get(front_page))
                .layer(faults.lane(lane.index()))
                .with_state(stock.clone())
        })?)
    })
}
