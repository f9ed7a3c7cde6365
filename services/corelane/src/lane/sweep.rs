//! Finds overdue connections and requests of a lane.

use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::balance::moves::Moves;
use crate::base::clock::Tick;
use crate::base::phase::Phase;
use crate::base::settings::Timeouts;
use crate::metrics::{Refusal, RequestRefusal};
use crate::request::body_watch::BodyPatience;
use crate::request::connection::{Connection, HangsOn, order_for};
use crate::request::finished::Cut;
use crate::request::lane_state::LaneState;
use crate::request::polls::Polls;
use crate::request::unsent::Patience;
use crate::transport::connections::Connections;
use crate::transport::parking_lot::SLICE;
use crate::transport::resting::Resting;

/// Sweep interval of a closing lane: short, so that the lane ends as soon as it is empty.
const HURRIED: Duration = Duration::from_millis(10);

const NAMED: usize = 5;

/// Sweep interval: a quarter of the shortest deadline, at most half a second. Both the start and
/// the end of a deadline are noticed by a sweep, so a deadline fires up to a second late.
fn interval(timeouts: &Timeouts, park_after: Option<Duration>) -> Duration {
    let Timeouts { header, body, request, write, slow, idle, .. } = timeouts;
    let shortest = header.min(body).min(request).min(write).min(slow).min(idle);
    let shortest = park_after.map_or(*shortest, |park_after| park_after.min(*shortest));
    (shortest / 4).clamp(Duration::from_millis(25), Duration::from_millis(500))
}

pub(crate) struct Sweep {
    pub(crate) connections: Rc<Connections>,
    pub(crate) moves: Rc<Moves<Resting>>,
    /// Idle time before a connection is parked.
    pub(crate) park_after: Option<Duration>,
    pub(crate) report: Duration,
    /// Notified when idle connections must close at once.
    pub(crate) hurry: Rc<Notify>,
}

/// Ends overdue connections and requests for as long as the lane runs. A pass takes nanoseconds per
/// connection, whereas a timer would cost each request two timer operations.
pub(crate) async fn run(sweep: Sweep) {
    let lane = &*sweep.connections.lane;
    let usual = interval(&lane.timeouts, sweep.park_after);
    let mut last = Instant::now();
    let mut reported = None;
    loop {
        let pause = if lane.phase.get() == Phase::Closing { HURRIED } else { usual };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Delayed so that requests waiting in their sockets are read first.
            () = sweep.hurry.notified() => tokio::time::sleep(HURRIED).await,
        }
        // First processes the input that arrived while the lane was busy, so that this input does
        // not count as missing.
        yield_now().await;
        let now = Instant::now();
        // The lane could not read while a handler blocked it, so this time does not count against
        // clients.
        let passed = now.duration_since(last).min(2 * pause);
        last = now;
        lane.clock.set(lane.clock.get() + passed);
        lane.passed.set(passed);
        lane.is_crowded.set(lane.unsent.is_above_limit());
        lane.metrics().beats.add(1);
        lane.pending.expire(Tick::now());
        expire_streams(lane);
        sweep.connections.strays.close_all();
        let (mut active, mut long_idle) = (0, Vec::new());
        let mut next = Some(0);
        while let Some(from) = next {
            if from > 0 {
                yield_now().await;
            }
            next = sweep.look_at_some(from, &mut active, &mut long_idle);
        }
        sweep.moves.sweep(active);
        if !sweep.connections.parking_lot.is_empty() {
            sweep.connections.parking_lot.sweep();
        }
        sweep.park(&long_idle).await;
        if lane.phase.get() == Phase::Closing {
            let since = *reported.get_or_insert(now);
            if now.duration_since(since) >= sweep.report {
                reported = Some(now);
                report(&sweep.connections, now);
            }
        }
    }
}

/// Maximum connections parked per event-loop turn, so that other tasks also run.
const PARKED_IN_A_TURN: usize = 32;

impl Sweep {
    /// Checks some connections, starting at this key: counts active connections and collects
    /// connections that may be parked. Returns the next key if there are more connections.
    fn look_at_some(
        &self,
        from: usize,
        active: &mut usize,
        long_idle: &mut Vec<usize>,
    ) -> Option<usize> {
        let Connections { lane, open, parking_lot, .. } = &*self.connections;
        let park_after = self.park_after.filter(|_| parking_lot.takes(lane));
        let open = open.borrow();
        let keys = from..open.capacity();
        let all = keys.filter_map(|key| Some((key, open.get(key)?)));
        for (looks, (key, connection)) in all.enumerate() {
            if looks == SLICE {
                return Some(key);
            }
            look_at(connection, lane, lane.clock.get());
            *active += usize::from(connection.is_active());
            if park_after.is_some_and(|after| connection.is_long_idle(after)) {
                long_idle.push(key);
            }
        }
        None
    }

    async fn park(&self, keys: &[usize]) {
        if keys.is_empty() {
            return;
        }
        let Connections { lane, open, parking_lot, .. } = &*self.connections;
        lane.polls.raise(Polls::PARK);
        for keys in keys.chunks(PARKED_IN_A_TURN) {
            if lane.phase.get() >= Phase::Closing || !parking_lot.takes(lane) {
                break;
            }
            for &key in keys {
                // The key may belong to another connection by now, so the lane checks again before
                // it parks the connection.
                if let Some(connection) = open.borrow().get(key) {
                    connection.tell_to_park();
                }
            }
            // The tasks of these connections run before this task.
            yield_now().await;
        }
        lane.polls.lower(Polls::PARK);
    }
}

/// Resets HTTP/2 streams that have waited too long for their clients.
fn expire_streams(lane: &LaneState) {
    let patience = Patience {
        write: lane.timeouts.write,
        pace: lane.send_pace,
        is_crowded: lane.is_crowded.get(),
        now: lane.clock.get(),
        passed: lane.passed.get(),
    };
    lane.streams.expire(&patience, |cut| {
        lane.metrics().refuse(match cut {
            Cut::SlowReader => Refusal::SlowReader,
            Cut::UnsentBytes => Refusal::UnsentBytes,
            _ => Refusal::WriteTimeout,
        });
    });
}

/// Ends an overdue connection, or an overdue wait for a request body.
fn look_at(connection: &Connection, lane: &LaneState, now: Instant) {
    let patience = BodyPatience {
        allowed: lane.timeouts.body,
        pace: lane.receive_pace,
        now,
        passed: lane.passed.get(),
    };
    connection.bodies.expire(&patience, |cut| {
        lane.metrics().refuse_request(match cut {
            Cut::SlowBody => RequestRefusal::SlowBody,
            _ => RequestRefusal::BodyTimeout,
        });
    });
    let Some(due) = connection.due(lane, now) else { return };
    // No request awaits a response, so this is an ordinary close that follows the rules of TLS and
    // HTTP/2.
    let is_silent = connection.is_silent() || connection.is_multiplexed();
    connection.tell(order_for(lane, due, is_silent));
}

fn report(connections: &Connections, now: Instant) {
    if connections.is_empty() {
        return;
    }
    let Connections { lane, open, parking_lot, .. } = connections;
    let open = open.borrow();
    let hang = |on| open.iter().filter(|(_, c)| c.hangs_on() == Some(on)).count();
    let waiting =
        lane.pending.ages(now.into()).into_iter().map(|(kind, age)| (kind, age, "waiting"));
    let ongoing = lane.exchanges.ages(now.into()).into_iter();
    let ongoing = ongoing.map(|(kind, age, why)| (kind, age, why.name()));
    let unread = open.iter().filter_map(|(_, connection)| connection.unread(now.into()));
    let unread = unread.map(|(kind, age)| (kind, age, "unread"));
    let mut oldest: Vec<_> = waiting.chain(ongoing).chain(unread).collect();
    oldest.sort_by_key(|&(_, age, _)| std::cmp::Reverse(age));
    let oldest = oldest.iter().take(NAMED).map(|&(kind, age, why)| {
        format!("{} {} {:.1}s {why}", kind.method_name(), lane.route(kind), age.as_secs_f64())
    });
    tracing::info!(
        lane = lane.index,
        connections = open.len() + parking_lot.len(),
        in_flight = lane.metrics().in_flight.get(),
        upgraded = lane.metrics().upgraded.get(),
        queued = lane.metrics().queued.get(),
        unfinished_headers = hang(HangsOn::Header) + parking_lot.unfinished_headers(),
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
