//! Lane load, which decides where a connection goes.

use std::time::{Duration, Instant};

use super::policy::{BUSY, DIFFERENCE};
use crate::load::lane::LaneShared;

/// Smaller differences in expected work are ignored: a move takes microseconds, and waking another
/// lane takes tens of microseconds.
const GRAIN: Duration = Duration::from_millis(1);

const MILLION: f64 = 1e6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) open: bool,
    /// Expected time for the lane's requests, including requests on connections that are in transit
    /// to it.
    pub(super) expected: Duration,
    pub(super) connections: usize,
    /// Share of recent time in which the lane was busy.
    pub(super) busy: f64,
}

impl Load {
    /// Load of a lane that has `connections` open connections and `coming` more in transit to it.
    pub(super) fn of(lane: &LaneShared, now: Instant, connections: usize, coming: usize) -> Load {
        Load {
            open: lane.is_listening(),
            expected: lane.expected_work(now) + any(lane) * coming as u32,
            connections,
            busy: lane.metrics.busy.get() as f64 / MILLION,
        }
    }

    fn grains(&self) -> u128 {
        self.expected.as_nanos() / GRAIN.as_nanos()
    }
}

pub(super) fn any(lane: &LaneShared) -> Duration {
    Duration::from_nanos(lane.load_table.expect_any())
}

/// How long to count connections that woke on a lane, if each request takes `each`.
pub(super) fn counts_for(connections: u64, each: Duration) -> Duration {
    GRAIN + each * connections as u32
}

pub(super) fn note_busy(lane: &LaneShared, share: f64) {
    lane.metrics.busy.set((share * MILLION) as u64);
}

/// Picks the lane with the least expected work. Ties go to the lane with the fewest connections,
/// and then to the first lane from `next`. Connection counts matter because an imbalance lasts as
/// long as the connections do.
pub(super) fn least(loads: impl ExactSizeIterator<Item = Load>, next: usize) -> Option<usize> {
    let count = loads.len();
    let open = loads.enumerate().filter(|(_, load)| load.open);
    let least = open.min_by_key(|(lane, load)| {
        (load.grains(), load.connections, (lane + count - next % count) % count)
    });
    least.map(|(lane, _)| lane)
}

/// Picks the lane with the least expected work and breaks ties in favour of the least busy lane.
/// `None` if `own` is just as good.
pub(super) fn better(loads: &[Load], own: usize) -> Option<usize> {
    let here = loads[own];
    let others = loads.iter().enumerate().filter(|(lane, load)| *lane != own && load.open);
    let (lane, there) = others.min_by(|(_, one), (_, two)| {
        one.grains().cmp(&two.grains()).then(one.busy.total_cmp(&two.busy))
    })?;
    let idler = here.busy > BUSY && here.busy > there.busy + DIFFERENCE;
    let same = here.expected < there.expected + GRAIN && there.expected < here.expected + GRAIN;
    let better = here.expected >= there.expected + GRAIN || same && idler;
    better.then_some(lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(millis: f64, connections: usize, busy: f64) -> Load {
        Load { open: true, expected: Duration::from_secs_f64(millis / 1e3), connections, busy }
    }

    #[test]
    fn the_lane_with_the_least_work_is_chosen() {
        // (expected work in ms, connections) of each lane, next -> lane
        let cases = [
            (vec![(0.5, 0), (0.5, 0), (0.5, 0)], 0, 0),
            (vec![(0.5, 0), (0.5, 0), (0.5, 0)], 2, 2),
            (vec![(0.5, 1), (0.5, 0), (0.5, 0)], 0, 1),
            (vec![(0.5, 1), (0.5, 0), (0.5, 0)], 5, 2),
            (vec![(7.5, 0), (0.5, 9), (8.5, 0)], 0, 1),
            (vec![(7.5, 3), (7.5, 2)], 0, 1),
            (vec![(7.5, 3)], 3, 0),
            // Differences below one millisecond are ignored.
            (vec![(0.9, 3), (0.0, 4)], 0, 0),
            (vec![(1.1, 3), (0.0, 4)], 0, 1),
        ];
        for (lanes, next, want) in cases {
            let loads = lanes.iter().map(|&(ms, connections)| load(ms, connections, 0.0));
            assert_eq!(least(loads, next), Some(want), "{lanes:?} from {next}");
        }
    }

    #[test]
    fn a_connection_stays_unless_another_lane_is_clearly_better() {
        // (expected work in ms, busy share) of each lane, the connection's own lane first -> lane
        let cases = [
            (vec![(0.0, 0.0), (0.0, 0.0)], None),
            (vec![(0.9, 0.0), (0.0, 0.0)], None),
            (vec![(1.0, 0.0), (0.0, 0.0)], Some(1)),
            (vec![(1.1, 0.0), (0.9, 0.0)], None),
            (vec![(9.0, 0.0), (9.5, 0.0), (7.0, 1.0)], Some(2)),
            (vec![(5.0, 1.0), (9.0, 0.0)], None),
            // With equal work, the busy shares decide.
            (vec![(0.0, 1.0), (0.5, 0.3), (0.0, 0.2)], Some(2)),
            (vec![(0.0, 0.5), (0.0, 0.0)], None),
            (vec![(0.0, 0.9), (0.0, 0.7)], None),
            (vec![(0.0, 1.0)], None),
        ];
        for (lanes, want) in cases {
            let loads: Vec<_> = lanes.iter().map(|&(ms, busy)| load(ms, 0, busy)).collect();
            assert_eq!(better(&loads, 0), want, "{lanes:?}");
        }
    }

    #[test]
    fn a_lane_that_takes_none_is_passed_over() {
        let closed = Load { open: false, ..load(0.0, 0, 0.0) };
        let loads = [load(9.0, 9, 1.0), closed];
        assert_eq!((least(loads.into_iter(), 0), better(&loads, 0)), (Some(0), None));
        assert_eq!(least([closed].into_iter(), 0), None);
    }
}
