//! Server-sent events with axum: a tick per second, until a drain begins.
//!
//! ```sh
//! cargo run --example sse 127.0.0.1:8080
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

/// Counts seconds. The last event asks the client to connect again, which leads it to another
/// replica. Without an end of its own, the deadline of the drain would cut the reply.
async fn ticks(State(lane): State<Lane>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let seconds = tokio::time::interval(Duration::from_secs(1));
    let ticks = stream::unfold((seconds, 0_u64), async |(mut seconds, n)| {
        seconds.tick().await;
        Some((Event::default().event("tick").data(n.to_string()), (seconds, n + 1)))
    });
    let last = Event::default().event("bye").retry(Duration::from_secs(1)).data("draining");
    let events = ticks.take_until(lane.draining()).chain(stream::iter([last]));
    // Comments keep proxies from ending a quiet reply.
    Sse::new(events.map(Ok)).keep_alive(KeepAlive::default())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let server = Server::builder().bind(address.parse()?).routes(["/ticks"]).build()?;
    println!("listening on {}", server.local_addr()?);
    let drained =
        server.serve(|lane| Router::new().route("/ticks", get(ticks)).with_state(lane.clone()))?;
    println!("drained; {} replies were cut", drained.cut);
    Ok(())
}
