//! Finds overdue connections and requests of a lane.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::yield_now;

use crate::clock::Tick;
use crate::connection::{Connection, Due, HangsOn, Order};
use crate::idle::Attention;
use crate::lane::LaneState;
use crate::metrics::{Handshake, Refusal, RequestRefusal};
use crate::phase::Phase;
use crate::settings::Timeouts;

/// Interval between sweeps of a closing lane, so that it ends as soon as it is empty.
const HURRIED: Duration = Duration::from_millis(10);

/// Maximum number of requests in a drain report.
const NAMED: usize = 5;

/// Interval between sweeps: a quarter of the shortest deadline, at most half a second. A deadline
/// starts in one sweep and ends in another, so it is up to a second late.
fn interval(timeouts: &Timeouts, park_after: Option<Duration>) -> Duration {
    let Timeouts { header, body, request, write, idle, .. } = timeouts;
    let shortest = header.min(body).min(request).min(write).min(idle);
    let shortest = park_after.map_or(*shortest, |park_after| park_after.min(*shortest));
    (shortest / 4).clamp(Duration::from_millis(25), Duration::from_millis(500))
}

/// Connections per turn of the event loop: their memory is not cached, and a lane may have many
/// thousands while requests wait.
pub(crate) const SLICE: usize = 1024;

/// Ends what is overdue, for as long as the lane runs. A pass takes some nanoseconds per
/// connection. A timer per request would cost each request two timer operations.
pub(crate) async fn run(state: Rc<LaneState>) {
    let usual = interval(&state.timeouts, state.park_after);
    let mut last = Instant::now();
    let mut reported = None;
    loop {
        let pause = if state.phase.get() == Phase::Closing { HURRIED } else { usual };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // After a delay, so that requests which wait in their sockets are read first.
            () = state.hurry.notified() => tokio::time::sleep(HURRIED).await,
        }
        // Input that arrived while the lane was busy is processed before it counts as missing.
        yield_now().await;
        let now = Instant::now();
        // The lane could not read while a handler held it, so that time does not count against
        // clients.
        let passed = now.duration_since(last).min(2 * pause);
        last = now;
        state.clock.set(state.clock.get() + passed);
        state.metrics().beats.add(1);
        state.pending.expire(state.timeouts.request, Tick::now());
        state.streams.expire(&state, state.clock.get());
        let (mut active, mut long_idle) = (0, Vec::new());
        let mut next = Some(0);
        while let Some(from) = next {
            if from > 0 {
                yield_now().await;
            }
            next = look_at_some(&state, from, &mut active, &mut long_idle);
        }
        state.recent_load.sweep(&state, active);
        if !state.parking_lot.is_empty() {
            state.parking_lot.sweep();
        }
        park(&state, &long_idle).await;
        if state.phase.get() == Phase::Closing {
            let since = *reported.get_or_insert(now);
            if now.duration_since(since) >= state.report {
                reported = Some(now);
                report(&state, now);
            }
        }
    }
}

/// Checks some connections, starting with this key. Counts active ones and collects those that may
/// park. Returns the key to continue with, if there are more.
fn look_at_some(
    state: &LaneState,
    from: usize,
    active: &mut usize,
    long_idle: &mut Vec<usize>,
) -> Option<usize> {
    let park_after = state.park_after.filter(|_| state.parking_lot.takes(state));
    let connections = state.connections.borrow();
    let keys = from..connections.capacity();
    let all = keys.filter_map(|key| Some((key, connections.get(key)?)));
    for (looks, (key, connection)) in all.enumerate() {
        if looks == SLICE {
            return Some(key);
        }
        look_at(connection, state, state.clock.get());
        *active += usize::from(connection.is_active());
        if park_after.is_some_and(|after| connection.is_long_idle(after)) {
            long_idle.push(key);
        }
    }
    None
}

/// Ends a connection if it is overdue, or the wait for its requests' bodies.
fn look_at(connection: &Connection, state: &LaneState, now: Instant) {
    let metrics = state.metrics();
    let late = connection.bodies.expire(state.timeouts.body, now);
    metrics.refuse_requests(RequestRefusal::BodyTimeout, late);
    let Some(due) = connection.due(state, now) else { return };
    // Without a request to answer this is an ordinary close, which also follows the rules of TLS
    // and HTTP/2.
    let is_silent = connection.is_silent() || connection.is_multiplexed();
    connection.tell(sentence(state, due, is_silent));
}

/// Counts what is due, and returns how to end the connection. `is_silent`: there is no request to
/// answer.
pub(crate) fn sentence(state: &LaneState, due: Due, is_silent: bool) -> Order {
    let metrics = state.metrics();
    match due {
        Due::HandshakeTimeout => {
            metrics.shake(Handshake::Timeout);
            metrics.refuse(Refusal::HandshakeTimeout);
            Order::Expire
        }
        Due::HeaderTimeout => {
            metrics.refuse(Refusal::HeaderTimeout);
            if is_silent { Order::Finish } else { Order::Expire }
        }
        Due::IdleTimeout => {
            metrics.refuse(Refusal::IdleTimeout);
            Order::Finish
        }
        Due::WriteTimeout => {
            metrics.refuse(Refusal::WriteTimeout);
            Order::Reset
        }
        Due::Drain => Order::Finish,
        Due::Deserted | Due::Unheeded => Order::Expire,
    }
}

/// Maximum connections to park per turn of the event loop, so that other tasks run in between.
const PARKED_IN_A_TURN: usize = 32;

/// Parks the connections with these keys.
async fn park(state: &LaneState, keys: &[usize]) {
    if keys.is_empty() {
        return;
    }
    state.attention.raise(Attention::PARK);
    for keys in keys.chunks(PARKED_IN_A_TURN) {
        if state.phase.get() >= Phase::Closing || !state.parking_lot.takes(state) {
            break;
        }
        for &key in keys {
            // The key may belong to another connection now; parking checks again.
            if let Some(connection) = state.connections.borrow().get(key) {
                connection.tell_to_park();
            }
        }
        // Their tasks run before this one.
        yield_now().await;
    }
    state.attention.lower(Attention::PARK);
}

/// Logs what a closing lane still waits for.
fn report(state: &LaneState, now: Instant) {
    if state.is_empty() {
        return;
    }
    let connections = state.connections.borrow();
    let hang = |on| connections.iter().filter(|(_, c)| c.hangs_on() == Some(on)).count();
    let mut waiting = state.pending.ages(now.into());
    waiting.sort_by_key(|&(_, age)| std::cmp::Reverse(age));
    let oldest = waiting.iter().take(NAMED).map(|&(kind, age)| {
        format!("{} {} {:.1}s", kind.method_name(), state.route(kind), age.as_secs_f64())
    });
    tracing::info!(
        lane = state.index,
        connections = connections.len() + state.parking_lot.len(),
        in_flight = state.metrics().in_flight.get(),
        queued = state.metrics().queued.get(),
        unfinished_headers = hang(HangsOn::Header) + state.parking_lot.unfinished_headers(),
        unread_replies = hang(HangsOn::Reader),
        oldest = oldest.collect::<Vec<_>>().join(", "),
        "drain: still waiting"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_soon_enough_for_the_shortest_deadline() {
        let with = |body| interval(&Timeouts { body, ..Timeouts::default() }, None);
        assert_eq!(with(Duration::from_secs(30)), Duration::from_millis(500));
        assert_eq!(with(Duration::from_millis(400)), Duration::from_millis(100));
        assert_eq!(with(Duration::from_millis(1)), Duration::from_millis(25));
    }
}
