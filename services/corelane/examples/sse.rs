//! Server-sent events with axum: one tick per second, or at an interval given in milliseconds,
//! until a drain starts.
//!
//! ```sh
//! cargo run --example sse 127.0.0.1:8080
//! cargo run --example sse 127.0.0.1:8080 100
//! curl -N http://127.0.0.1:8080/ticks
//! ```

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use corelane::{Lane, Server};
use futures_util::stream::{self, Stream, StreamExt};

#[derive(Clone)]
struct Ticker {
    lane: Lane,
    period: Duration,
}

/// Counts periods. The last event makes the client reconnect to another replica. Otherwise the
/// drain's deadline would cut the response off.
async fn ticks(State(ticker): State<Ticker>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let periods = tokio::time::interval(ticker.period);
    let ticks = stream::unfold((periods, 0_u64), async |(mut periods, n)| {
        periods.tick().await;
        Some((Event::default().event("tick").data(n.to_string()), (periods, n + 1)))
    });
    let last = Event::default().event("bye").retry(Duration::from_secs(1)).data("draining");
    let events = ticks.take_until(ticker.lane.draining()).chain(stream::iter([last]));
    // Comments keep proxies from closing a quiet response.
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::default())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).routes(["/ticks"]).build()?;
    println!("listening on {}", server.local_addr()?);
    let period = std::env::args().nth(2).map_or(Ok(1000), |given| given.parse())?;
    let drained = server.serve(move |lane| {
        let ticker = Ticker { lane: lane.clone(), period: Duration::from_millis(period) };
        Router::new().route("/ticks", get(ticks)).with_state(ticker)
    })?;
    println!("drained; {} replies were cut", drained.cut);
    Ok(())
}
