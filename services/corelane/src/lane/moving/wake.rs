//! Chooses the lane for a parked connection that wakes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::mailbox::Mailbox;
use super::policy::{BUSY, DIFFERENCE};
use crate::load::lane::LaneShared;
use crate::request::lane_state::LaneState;

/// Differences in expected work below this are ignored: a move takes some microseconds, and waking
/// the other lane takes some tens of microseconds.
const GRAIN: Duration = Duration::from_millis(1);

/// The recent history of a lane.
#[derive(Debug)]
pub(crate) struct RecentLoad {
    /// Connections that woke here and whose requests may not have begun, and since when they count.
    woken: Cell<(Instant, u64)>,
    /// Time of the last sweep, and the total busy time of the lane then.
    swept: Cell<(Instant, Duration)>,
}

impl RecentLoad {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        RecentLoad { woken: Cell::new((now, 0)), swept: Cell::new((now, Duration::ZERO)) }
    }

    /// Records a sweep that found `active` connections in use.
    pub(crate) fn sweep(&self, lane: &LaneState, active: usize) {
        let now = Instant::now();
        let (before, busy_before) = self.swept.get();
        let busy = lane.shared().loop_busy();
        self.swept.set((now, busy));
        let passed = now.saturating_duration_since(before).as_secs_f64().max(1e-6);
        let share = (busy.saturating_sub(busy_before).as_secs_f64() / passed).min(1.0);
        lane.metrics().busy.set((share * MILLION) as u64);
        lane.metrics().active.set(active as u64);
    }

    /// Connections that woke here recently. They count for as long as all of them are expected to
    /// take.
    fn woken(&self, now: Instant, each: Duration) -> u64 {
        let (since, count) = self.woken.get();
        let over = now.saturating_duration_since(since) > GRAIN + each * count as u32;
        if over {
            self.woken.set((now, 0));
        }
        self.woken.get().1
    }

    fn wake(&self) {
        let (since, count) = self.woken.get();
        self.woken.set((since, count + 1));
    }

    /// The lane that should resume a connection which wakes on `lane`; `None` for `lane` itself.
    pub(super) fn choose_lane(&self, lane: &LaneState, mailboxes: &[Mailbox]) -> Option<usize> {
        let (now, own) = (Instant::now(), lane.index);
        let each = lane.group().iter().zip(mailboxes).enumerate();
        let loads = each.map(|(index, (each, mailbox))| {
            let here = || self.woken(now, any(each));
            let coming = if index == own { here() } else { mailbox.length() as u64 };
            Load::of(each, now, coming)
        });
        let chosen = choose(&loads.collect::<Vec<_>>(), own);
        if chosen.is_none() {
            self.wake();
        }
        chosen
    }
}

const MILLION: f64 = 1e6;

/// The criteria for choosing a lane.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Whether it can be chosen.
    open: bool,
    /// Expected time for its requests, including those of connections in transit to it.
    expected: Duration,
    /// The share of recent time for which it was busy.
    busy: f64,
}

impl Load {
    /// The load of a lane with `coming` connections in transit to it.
    fn of(lane: &LaneShared, now: Instant, coming: u64) -> Load {
        // A handler that exceeded its expected time may continue for as long again.
        let overdue = lane.running.get(now).map_or(Duration::ZERO, |(kind, held)| {
            let expected = Duration::from_nanos(lane.load_table.expect(kind));
            if held > expected { held } else { Duration::ZERO }
        });
        Load {
            open: lane.is_listening(),
            expected: lane.expected_work(now) + overdue + any(lane) * coming as u32,
            busy: lane.metrics.busy.get() as f64 / MILLION,
        }
    }
}

/// Expected time of a request of any kind.
fn any(lane: &LaneShared) -> Duration {
    Duration::from_nanos(lane.load_table.expect_any())
}

/// The lane with the least expected work, and among equals the least busy one. `None` if `own` is
/// as good.
fn choose(loads: &[Load], own: usize) -> Option<usize> {
    let here = loads[own];
    let grains = |load: &Load| load.expected.as_nanos() / GRAIN.as_nanos();
    let others = loads.iter().enumerate().filter(|(lane, load)| *lane != own && load.open);
    let (lane, there) = others.min_by(|(_, one), (_, two)| {
        grains(one).cmp(&grains(two)).then(one.busy.total_cmp(&two.busy))
    })?;
    let idler = here.busy > BUSY && here.busy > there.busy + DIFFERENCE;
    let same = here.expected < there.expected + GRAIN && there.expected < here.expected + GRAIN;
    let better = here.expected >= there.expected + GRAIN || same && idler;
    better.then_some(lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load((millis, busy): (f64, f64)) -> Load {
        Load { open: true, expected: Duration::from_secs_f64(millis / 1e3), busy }
    }

    #[test]
    fn a_connection_stays_unless_another_lane_is_clearly_better() {
        // (expected work in ms, busy share) of each lane; the first is its own -> lane
        let cases = [
            (vec![(0.0, 0.0), (0.0, 0.0)], None),
            (vec![(0.9, 0.0), (0.0, 0.0)], None),
            (vec![(1.0, 0.0), (0.0, 0.0)], Some(1)),
            (vec![(1.1, 0.0), (0.9, 0.0)], None),
            (vec![(9.0, 0.0), (9.5, 0.0), (7.0, 1.0)], Some(2)),
            (vec![(5.0, 1.0), (9.0, 0.0)], None),
            // Equal work: the busy shares decide.
            (vec![(0.0, 1.0), (0.5, 0.3), (0.0, 0.2)], Some(2)),
            (vec![(0.0, 0.5), (0.0, 0.0)], None),
            (vec![(0.0, 0.9), (0.0, 0.7)], None),
            (vec![(0.0, 1.0)], None),
        ];
        for (lanes, want) in cases {
            let loads: Vec<_> = lanes.iter().copied().map(load).collect();
            assert_eq!(choose(&loads, 0), want, "{lanes:?}");
        }
    }

    #[test]
    fn a_lane_that_takes_none_is_passed_over() {
        let closed = Load { open: false, ..load((0.0, 0.0)) };
        assert_eq!(choose(&[load((9.0, 1.0)), closed], 0), None);
    }
}
