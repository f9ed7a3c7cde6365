//! Client limits: checks the responses and that nothing stays allocated.

pub(crate) mod abuse;
mod deadlines;
mod grpc;
mod http2;
mod retirement;
mod sizes;

use std::time::Duration;

use crate::support::{Handlers, Running, Way};
use corelane::{Limits, Timeouts};

fn start(way: Way, limits: Limits, timeouts: Timeouts) -> (Running, Handlers) {
    let handlers = Handlers::new();
    let settings = way.builder().limits(limits).timeouts(timeouts);
    (Running::start(settings, handlers.factory()), handlers)
}

fn with_limits(way: Way, limits: Limits) -> (Running, Handlers) {
    start(way, limits, Timeouts::default())
}

fn strict(way: Way, timeouts: Timeouts) -> (Running, Handlers) {
    start(way, Limits::default(), timeouts)
}

const BRIEF: Duration = Duration::from_millis(500);

fn impatient() -> Timeouts {
    Timeouts { header: BRIEF, idle: BRIEF, ..Timeouts::default() }
}

/// Waits until connections, requests and memory are all released.
fn wait_until_freed(server: &Running, handlers: &Handlers) {
    server.wait_for_connections(0);
    server.wait_for_in_flight(0);
    server.wait_until("freed", || handlers.alive() == 0);
}
