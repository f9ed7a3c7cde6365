//! The stall watchdog detects blocked lanes and stuck event loops.
//!
//! It runs outside the lanes and checks them four times per `timeouts.stall`. The watchdog may
//! therefore detect a stall up to a quarter of that time late, or miss a stall that ends earlier.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval};

use crate::base::phase::{Lifecycle, Phase};
use crate::load::activity::{NO_ROUTE, Stalls};
use crate::load::lane::LaneShared;
use crate::metrics::kind::{KindIndex, METHODS};
use crate::request::routes::Routes;

/// Maximum interval between sweeps, which prove that the event loop is turning.
const BEAT: Duration = Duration::from_secs(1);

/// Watches every lane while its event loop runs.
pub(crate) async fn run(
    lanes: &[Arc<LaneShared>],
    routes: &Routes,
    lifecycle: &Lifecycle,
    allowed: Duration,
) {
    let period = (allowed / 4).clamp(Duration::from_millis(5), Duration::from_millis(250));
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looked = Instant::now();
    let mut watches: Vec<_> = lanes.iter().map(|_| StallWatch::new(looked)).collect();
    loop {
        ticks.tick().await;
        let now = Instant::now();
        // If the whole process was stopped or lost its CPUs, the lanes are not the cause of the
        // delay.
        let slept = now.saturating_duration_since(looked) > BEAT;
        looked = now;
        for (index, (lane, watch)) in lanes.iter().zip(&mut watches).enumerate() {
            if slept {
                watch.turned = now;
            }
            let change = watch.look(&sight(lifecycle, lane, now), allowed, now);
            tell(&lane.stalls, routes, index, change);
        }
    }
}

fn sight(lifecycle: &Lifecycle, lane: &LaneShared, now: Instant) -> Sight {
    // A lane may have drained and ended while other lanes are still draining.
    let ended = lifecycle.phase() >= Phase::Closing && lane.metrics.open.get() == 0;
    let turns = lane.is_listening() && !ended;
    Sight { running: lane.running.get(now), beats: turns.then(|| lane.metrics.beats.get()) }
}

fn tell(stalls: &Stalls, routes: &Routes, lane: usize, change: Option<Change>) {
    let name = |kind: Option<KindIndex>| match kind {
        Some(kind) => (routes.name(kind.route()), METHODS[kind.method()]),
        None => (NO_ROUTE, NO_ROUTE),
    };
    match change {
        Some(Change::Began { kind, lasted }) => {
            stalls.begin(kind);
            let (route, method) = name(kind);
            tracing::warn!(lane, route, method, ?lasted, "a lane is stalled");
        }
        Some(Change::Ended { kind, lasted }) => {
            stalls.end();
            let (route, method) = name(kind);
            tracing::warn!(lane, route, method, ?lasted, "the stall of a lane is over");
        }
        None => {}
    }
}

struct Sight {
    running: Option<(KindIndex, Duration)>,
    /// A counter that changes while the event loop is turning, or `None` before the lane starts to
    /// listen and after it has ended.
    beats: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Stall {
    kind: Option<KindIndex>,
    begun: Instant,
    /// Whether a single poll of a handler is causing the stall. If not, the event loop is stuck.
    in_handler: bool,
}

#[derive(Debug, PartialEq)]
enum Change {
    Began {
        kind: Option<KindIndex>,
        lasted: Duration,
    },
    /// `lasted` includes the time until detection.
    Ended {
        kind: Option<KindIndex>,
        lasted: Duration,
    },
}

struct StallWatch {
    beats: u64,
    turned: Instant,
    stall: Option<Stall>,
}

impl StallWatch {
    fn new(now: Instant) -> Self {
        StallWatch { beats: 0, turned: now, stall: None }
    }

    fn look(&mut self, sight: &Sight, allowed: Duration, now: Instant) -> Option<Change> {
        if sight.beats != Some(self.beats) {
            self.beats = sight.beats.unwrap_or(0);
            self.turned = now;
        }
        let handler = sight.running.map(|(kind, lasted)| (kind, now - lasted));
        if let Some(stall) = self.stall {
            let goes_on = match stall.in_handler {
                true => handler.is_some_and(|(_, begun)| begun == stall.begun),
                false => self.turned == stall.begun,
            };
            if goes_on {
                return None;
            }
            self.stall = None;
            self.turned = now;
            return Some(Change::Ended { kind: stall.kind, lasted: now - stall.begun });
        }
        let found = match handler {
            Some((kind, begun)) if now - begun > allowed => {
                Stall { kind: Some(kind), begun, in_handler: true }
            }
            _ if sight.beats.is_some() && now - self.turned > allowed + BEAT => {
                let kind = handler.map(|(kind, _)| kind);
                Stall { kind, begun: self.turned, in_handler: false }
            }
            _ => return None,
        };
        self.stall = Some(found);
        Some(Change::Began { kind: found.kind, lasted: now - found.begun })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Duration = Duration::from_millis(500);
    const SLOW: KindIndex = KindIndex::from_bits(7);

    /// One observation of a lane: time in milliseconds, start of the handler's poll, and the event
    /// loop's beats.
    type Moment = (u64, Option<u64>, Option<u64>);

    /// Resulting events: time, whether a stall started, whether it is in a handler, and its length
    /// in milliseconds.
    fn watch(moments: &[Moment]) -> Vec<(u64, bool, bool, u128)> {
        let start = Instant::now();
        let mut watch = StallWatch::new(start);
        let found = moments.iter().filter_map(|&(at, since, beats)| {
            let now = start + Duration::from_millis(at);
            let running = since.map(|since| (SLOW, Duration::from_millis(at - since)));
            let (began, kind, lasted) = match watch.look(&Sight { running, beats }, ALLOWED, now)? {
                Change::Began { kind, lasted } => (true, kind, lasted),
                Change::Ended { kind, lasted } => (false, kind, lasted),
            };
            Some((at, began, kind.is_some(), lasted.as_millis()))
        });
        found.collect()
    }

    #[test]
    fn one_long_poll_is_one_stall() {
        let moments = [
            (0, None, Some(1)),
            (400, Some(300), Some(1)),
            (700, Some(300), Some(1)),
            (801, Some(300), Some(1)),
        ];
        assert_eq!(watch(&moments), [(801, true, true, 501)]);
        let more = [(3000, Some(300), Some(1)), (3100, Some(3050), Some(1)), (3200, None, Some(2))];
        assert_eq!(
            watch(&[&moments[..], &more].concat()),
            [(801, true, true, 501), (3100, false, true, 2800)]
        );
    }

    #[test]
    fn many_short_polls_are_no_stall_while_the_event_loop_turns() {
        let moments: Vec<_> =
            (1..100).map(|n| (n * 100, Some(n * 100 - 99), Some(n / 10))).collect();
        assert_eq!(watch(&moments), []);
    }

    #[test]
    fn an_event_loop_that_does_not_turn_is_a_stall_of_no_route() {
        let stuck = [(100, None, Some(1)), (1600, None, Some(1)), (1601, None, Some(1))];
        assert_eq!(watch(&stuck), [(1601, true, false, 1501)]);
        let over = [&stuck[..], &[(9000, None, Some(1)), (9100, None, Some(2))]].concat();
        assert_eq!(watch(&over)[1..], [(9100, false, false, 9000)]);
    }

    #[test]
    fn a_lane_that_has_not_begun_or_has_ended_is_not_stalled() {
        let moments =
            [(0, None, None), (60_000, None, None), (60_100, None, Some(1)), (60_200, None, None)];
        assert_eq!(watch(&moments), []);
        assert_eq!(watch(&[&moments[..], &[(90_000, None, None)]].concat()), []);
    }
}
