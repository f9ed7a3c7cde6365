//! How busy each lane was over the last second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::load::lane::LaneShared;

/// Interval between samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(250);

/// Number of samples kept: the busy share covers the last 1 to 1.25 s.
const SAMPLES: usize = 5;

/// Samples of the lanes' busy times.
#[derive(Debug, Default)]
pub(crate) struct BusyShares(VecDeque<(Instant, Vec<Duration>)>);

/// Wall-clock time for which a lane was not waiting. The event loop updates its counter at the end
/// of a turn, so the handler that is being polled is added.
pub(crate) fn busy(lane: &LaneShared, now: Instant) -> Duration {
    lane.busy() + lane.running.get(now).map_or(Duration::ZERO, |(_, since)| since)
}

impl BusyShares {
    /// Takes a sample. Call it every [`SAMPLE_EVERY`].
    pub(crate) fn sample(&mut self, lanes: &[LaneShared], now: Instant) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((now, lanes.iter().map(|lane| busy(lane, now)).collect()));
    }

    /// Time since the oldest sample, and the share of it that each lane was busy: 0 to 1.
    pub(crate) fn read(&self, lanes: &[LaneShared], now: Instant) -> (Duration, Vec<f64>) {
        let Some((begun, samples)) = self.0.front() else {
            return (Duration::ZERO, vec![0.0; lanes.len()]);
        };
        let window = now.saturating_duration_since(*begun);
        let share = |(lane, before): (&LaneShared, &Duration)| {
            let busy = busy(lane, now).saturating_sub(*before);
            (busy.as_secs_f64() / window.as_secs_f64().max(1e-9)).min(1.0)
        };
        (window, lanes.iter().zip(samples).map(share).collect())
    }
}
