//! Measures how busy each lane was during the last second.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::load::lane::LaneShared;

pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Number of samples to keep, so that the busy share covers the last 1 to 1.25 s.
const SAMPLES: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct BusyShares(VecDeque<(Instant, Vec<[Duration; 2]>)>);

/// A lane's busy share, from 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BusyShare {
    pub(crate) all: f64,
    pub(crate) slow: f64,
}

/// Wall-clock time during which a lane was not waiting. The event loop updates its counter at the
/// end of a turn, so the time of the current poll is added.
pub(crate) fn busy(lane: &LaneShared, now: Instant) -> Duration {
    lane.busy() + lane.running.get(now).map_or(Duration::ZERO, |(_, since)| since)
}

fn times(lane: &LaneShared, now: Instant) -> [Duration; 2] {
    [busy(lane, now), lane.cpu.slow_time()]
}

impl BusyShares {
    /// Takes a sample. Call this every [`SAMPLE_EVERY`].
    pub(crate) fn sample(&mut self, lanes: &[Arc<LaneShared>], now: Instant) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((now, lanes.iter().map(|lane| times(lane, now)).collect()));
    }

    /// Time since the oldest sample, and each lane's busy share during that time.
    pub(crate) fn read(
        &self,
        lanes: &[Arc<LaneShared>],
        now: Instant,
    ) -> (Duration, Vec<BusyShare>) {
        let Some((begun, samples)) = self.0.front() else {
            return (Duration::ZERO, vec![BusyShare::default(); lanes.len()]);
        };
        let window = now.saturating_duration_since(*begun);
        let share = |(lane, before): (&Arc<LaneShared>, &[Duration; 2])| {
            let times = times(lane, now);
            let [all, slow] = [0, 1].map(|of| {
                let time = times[of].saturating_sub(before[of]);
                (time.as_secs_f64() / window.as_secs_f64().max(1e-9)).min(1.0)
            });
            BusyShare { all, slow: slow.min(all) }
        };
        (window, lanes.iter().zip(samples).map(share).collect())
    }
}
