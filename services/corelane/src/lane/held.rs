//! Finds lanes that a handler holds, and lends their connections to idle lanes. Runs on the admin
//! thread.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::base::phase::{Lifecycle, Phase};
use crate::base::turns::BRIEF;
use crate::load::lane::LaneShared;
use crate::transport::lending::Lending;

/// Interval of looking while a lane is held; the resolution of tokio's timers.
const HELD: Duration = Duration::from_millis(1);

/// The same while lanes serve requests, and while they do not.
const BUSY: Duration = Duration::from_millis(2);
const QUIET: Duration = Duration::from_millis(20);

/// Work that an idle lane is given at once. It looks for its own requests in between.
const ROOM: Duration = Duration::from_millis(2);

/// Connections that an idle lane is given at once.
const MOST: u64 = 32;

/// Lends the connections of lanes that one handler holds for longer than `after`, while the server
/// serves. `None`: of all lanes, at all times.
pub(crate) async fn run(
    lanes: &[LaneShared],
    lending: Option<&Arc<Lending>>,
    lifecycle: &Lifecycle,
    after: Option<Duration>,
) {
    let Some(lending) = lending else { return pending().await };
    let mut finished = 0;
    while lifecycle.phase() == Phase::Serving {
        let now = Instant::now();
        let held: Vec<_> =
            (0..lanes.len()).filter(|&lane| is_held(&lanes[lane], now, after)).collect();
        held.iter().for_each(|&lane| relieve(lanes, lending, lane, now));
        let before = finished;
        finished = lanes.iter().map(|lane| lane.metrics.finished.get()).sum();
        let pause = if finished == before { QUIET } else { BUSY };
        sleep(if held.is_empty() { pause } else { HELD }).await;
    }
    pending().await
}

fn is_held(lane: &LaneShared, now: Instant, after: Option<Duration>) -> bool {
    let Some(after) = after else { return true };
    lane.running.get(now).is_some_and(|(_, held)| held > after)
}

/// Lends connections of a lane that is held to each lane that has time.
fn relieve(lanes: &[LaneShared], lending: &Arc<Lending>, home: usize, now: Instant) {
    for (to, lane) in lanes.iter().enumerate().filter(|&(to, _)| to != home) {
        let lent = lending.lend(home, to, room(lane, lending.coming(to) as u64, now) as usize);
        lanes[home].metrics.lent.add(lent as u64);
    }
}

/// Connections that a lane has time for, to which so many are coming.
fn room(lane: &LaneShared, coming: u64, now: Instant) -> u64 {
    if !lane.is_listening() || lane.running.get(now).is_some() {
        return 0;
    }
    let each = lane.load_table.expect_any().max(BRIEF);
    let left = ROOM.saturating_sub(lane.expected_work(now)).as_nanos() as u64;
    (left / each).min(MOST).saturating_sub(coming)
}
