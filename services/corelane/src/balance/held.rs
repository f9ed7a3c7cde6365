//! Finds lanes that a handler is blocking and lends their connections to idle lanes. Runs on the
//! admin thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::lending::Lending;
use crate::base::phase::{Lifecycle, Phase};
use crate::load::lane::LaneShared;
use crate::request::queue::BRIEF;

/// Check interval while a lane is blocked: the resolution of tokio's timers.
const HELD: Duration = Duration::from_millis(1);

/// Check interval for [`RECENTLY`] after a lane was blocked, because lanes tend to be blocked in
/// bursts.
const OFTEN: Duration = Duration::from_millis(2);
const RECENTLY: Duration = Duration::from_secs(10);

/// Check interval otherwise. A check takes about 30 µs.
const RARELY: Duration = Duration::from_millis(20);

/// Maximum work lent to an idle lane at once, so that it can check for its own requests in between.
const ROOM: Duration = Duration::from_millis(2);

/// Maximum connections lent to an idle lane at once.
const MOST: u64 = 32;

/// Lends the connections of lanes that a handler has blocked for longer than `after`, for as long
/// as the server is serving. `None` lends the connections of all lanes at all times.
pub(crate) async fn run(
    lanes: &[Arc<LaneShared>],
    lending: &Arc<Lending>,
    lifecycle: &Lifecycle,
    after: Option<Duration>,
) {
    let mut seen = None;
    while lifecycle.phase() == Phase::Serving {
        let now = Instant::now();
        let held: Vec<_> =
            (0..lanes.len()).filter(|&lane| is_held(&lanes[lane], now, after)).collect();
        held.iter().for_each(|&lane| relieve(lanes, lending, lane, now));
        seen = if held.is_empty() { seen } else { Some(now) };
        let recently = seen.is_some_and(|seen| now.duration_since(seen) < RECENTLY);
        sleep(match (held.is_empty(), recently) {
            (false, _) => HELD,
            (true, true) => OFTEN,
            (true, false) => RARELY,
        })
        .await;
    }
}

fn is_held(lane: &LaneShared, now: Instant, after: Option<Duration>) -> bool {
    let Some(after) = after else { return true };
    lane.running.get(now).is_some_and(|(_, held)| held > after)
}

fn relieve(lanes: &[Arc<LaneShared>], lending: &Arc<Lending>, home: usize, now: Instant) {
    let each = lanes[home].load_table.expect_any().max(BRIEF);
    for (to, lane) in lanes.iter().enumerate().filter(|&(to, _)| to != home) {
        let most = room(lane, each, lending.coming(to) as u64, now);
        let lent = lending.lend(home, to, most as usize);
        lanes[home].metrics.lent.add(lent as u64);
    }
}

/// Number of connections that a lane has time to serve if `coming` connections are in transit to it
/// and each request takes `each` nanoseconds.
fn room(lane: &LaneShared, each: u64, coming: u64, now: Instant) -> u64 {
    if !lane.is_listening() || lane.running.get(now).is_some() {
        return 0;
    }
    let left = ROOM.saturating_sub(lane.expected_work(now)).as_nanos() as u64;
    // Rounded up: an idle lane can take one connection, however long its request may take.
    left.div_ceil(each).min(MOST).saturating_sub(coming)
}
