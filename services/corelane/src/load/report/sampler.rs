//! Computes reports from monotonic counters, without clocks and threads.

use std::time::Duration;

const SMOOTHED_OVER: Duration = Duration::from_secs(1);

/// Minimum utilization to report. Weights are inversely proportional to the utilization, so a
/// replica that reported 0.001 would attract nearly all requests.
const LEAST_UTILIZATION: f64 = 0.02;

/// Minimum rate for a report. Below this rate, the utilization is noise.
const LEAST_RPS: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// Busy time of the event loop, updated at the end of a turn.
    pub(super) busy: Duration,
    /// CPU time of the slow lane, excluding the time for which the event loop waited.
    pub(super) slow: Duration,
    /// Counts the starts and ends of waits, so the value is odd while the event loop is waiting.
    pub(super) waits: u64,
    pub(super) finished: u64,
    /// Number of requests answered with 5xx.
    pub(super) failed: u64,
    pub(super) in_flight: u64,
    pub(super) expected: Duration,
}

/// The values of a report, in the units of [`LoadReports`](super::LoadReports).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Report {
    pub(super) utilization: f64,
    pub(super) rps: f64,
    pub(super) eps: f64,
    pub(super) expected_wait: f64,
    pub(super) in_flight: u64,
}

#[derive(Debug)]
pub(super) struct Sampler {
    lanes: Vec<LaneUse>,
    utilization: f64,
    rps: f64,
    eps: f64,
}

impl Sampler {
    pub(super) fn new(lanes: usize) -> Sampler {
        Sampler { lanes: vec![LaneUse::default(); lanes], utilization: 0.0, rps: 0.0, eps: 0.0 }
    }

    /// Adds the readings of all lanes, taken `elapsed` after the previous readings. `None` while
    /// the server is idle.
    pub(super) fn sample(&mut self, elapsed: Duration, readings: &[Reading]) -> Option<Report> {
        let elapsed = elapsed.max(Duration::from_millis(1));
        let (mut busy, mut finished, mut failed) = (Duration::ZERO, 0, 0);
        for (lane, reading) in self.lanes.iter_mut().zip(readings) {
            finished += reading.finished.saturating_sub(lane.last.finished);
            failed += reading.failed.saturating_sub(lane.last.failed);
            let slow = reading.slow.saturating_sub(lane.last.slow);
            busy += (lane.busy(elapsed, reading) + slow).min(elapsed);
            lane.last = *reading;
        }
        let (seconds, lanes) = (elapsed.as_secs_f64(), self.lanes.len() as f64);
        self.utilization = smooth(self.utilization, busy.as_secs_f64() / seconds / lanes, elapsed);
        self.rps = smooth(self.rps, finished as f64 / seconds, elapsed);
        self.eps = smooth(self.eps, failed as f64 / seconds, elapsed);
        let expected: Duration = readings.iter().map(|reading| reading.expected).sum();
        (self.rps >= LEAST_RPS).then(|| Report {
            utilization: self.utilization.max(LEAST_UTILIZATION),
            rps: self.rps,
            eps: self.eps,
            expected_wait: expected.as_secs_f64() / lanes,
            in_flight: readings.iter().map(|reading| reading.in_flight).sum(),
        })
    }
}

/// Moves `old` towards `new` for `elapsed`: `old·e + new·(1 − e)`, `e = exp(−elapsed/τ)`, like the
/// kernel's load average (kernel/sched/loadavg.c). Later samples carry more weight.
fn smooth(old: f64, new: f64, elapsed: Duration) -> f64 {
    let kept = (-elapsed.div_duration_f64(SMOOTHED_OVER)).exp();
    old * kept + new * (1.0 - kept)
}

#[derive(Clone, Copy, Debug, Default)]
struct LaneUse {
    last: Reading,
    /// Time counted as busy that the lane's counter does not include yet.
    ahead: Duration,
}

impl LaneUse {
    /// The busy part of `elapsed`.
    ///
    /// A lane updates its counter only at the end of a turn, so it would look idle during a long
    /// turn. If the event loop has not waited since the last reading, the whole interval is
    /// therefore counted now and subtracted from the later update.
    fn busy(&mut self, elapsed: Duration, now: &Reading) -> Duration {
        let added = now.busy.saturating_sub(self.last.busy);
        let waiting = now.waits % 2 == 1;
        if added.is_zero() && now.waits == self.last.waits && !waiting {
            self.ahead += elapsed;
            return elapsed;
        }
        let busy = added.saturating_sub(self.ahead);
        self.ahead = Duration::ZERO;
        // The rest belongs to an earlier interval, which has already been reported.
        busy.min(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-6, "{found} is not {wanted}");
    }

    /// A lane that was busy for `share` percent of each tick, for `ticks` ticks with 10 requests
    /// each.
    fn after(ticks: u64, share: u64) -> Reading {
        Reading {
            busy: millis(ticks * share),
            waits: ticks * 2 + 1,
            finished: ticks * 10,
            failed: ticks,
            ..Reading::default()
        }
    }

    fn run(sampler: &mut Sampler, ticks: u64, lanes: impl Fn(u64) -> Vec<Reading>) -> Report {
        let reports = (1..=ticks).map(|tick| sampler.sample(TICK, &lanes(tick)));
        reports.last().flatten().expect("a report")
    }

    #[test]
    fn settled_values_are_the_true_ones() {
        // Busy shares of two lanes in percent, and the reported mean.
        for (shares, utilization) in
            [([50, 50], 0.5), ([100, 0], 0.5), ([100, 100], 1.0), ([1, 0], 0.02), ([0, 0], 0.02)]
        {
            let mut sampler = Sampler::new(2);
            let report = run(&mut sampler, 300, |tick| shares.map(|s| after(tick, s)).to_vec());
            near(report.utilization, utilization);
            near(report.rps, 200.0);
            near(report.eps, 20.0);
        }
    }

    #[test]
    fn a_value_weighs_one_by_e_a_second_later() {
        let mut sampler = Sampler::new(1);
        let full = run(&mut sampler, 300, |tick| vec![after(tick, 100)]);
        near(full.utilization, 1.0);
        let later = run(&mut sampler, 10, |_| vec![after(300, 100)]);
        near(later.utilization, (-1.0f64).exp());
        near(later.rps, 100.0 * (-1.0f64).exp());
    }

    #[test]
    fn one_late_sample_equals_many_in_time() {
        let (mut often, mut late) = (Sampler::new(1), Sampler::new(1));
        let report = run(&mut often, 10, |tick| vec![after(tick, 70)]);
        let once = late.sample(10 * TICK, &[after(10, 70)]).expect("a report");
        near(once.utilization, report.utilization);
        near(once.rps, report.rps);
    }

    #[test]
    fn a_lane_in_one_long_turn_is_busy() {
        let mut lane = LaneUse::default();
        // Total busy time (ms), waits, and the expected result for the tick (ms).
        let ticks = [
            (10, 1, 10),  // parked at the end
            (30, 2, 20),  // woken up, in a long turn
            (30, 2, 100), // still in the same turn
            (30, 2, 100),
            (310, 3, 80),  // 280 ms in total, 200 ms already counted
            (310, 3, 0),   // parked since then
            (710, 4, 100), // longer than a tick: the lane was busy earlier, unobserved
            (710, 6, 0),   // a wait separates the two turns
        ];
        for (index, (busy, waits, counted)) in ticks.into_iter().enumerate() {
            let now = Reading { busy: millis(busy), waits, ..Reading::default() };
            assert_eq!(lane.busy(TICK, &now), millis(counted), "tick {index}");
            lane.last = now;
        }
    }

    #[test]
    fn the_work_of_a_slow_lane_counts() {
        let mut sampler = Sampler::new(1);
        let report = (1..=300).filter_map(|tick| {
            let slow = Duration::from_millis(20 * tick);
            sampler.sample(TICK, &[Reading { slow, ..after(tick, 30) }])
        });
        near(report.last().expect("a report").utilization, 0.5);
    }

    #[test]
    fn named_metrics_are_those_of_the_moment() {
        let mut sampler = Sampler::new(2);
        let lane =
            |in_flight, expected| Reading { in_flight, expected: millis(expected), ..after(1, 10) };
        let report = sampler.sample(TICK, &[lane(3, 40), lane(4, 0)]).expect("a report");
        assert_eq!(report.in_flight, 7);
        near(report.expected_wait, 0.02);
    }

    #[test]
    fn an_idle_server_does_not_report() {
        let mut sampler = Sampler::new(1);
        assert_eq!(sampler.sample(TICK, &[Reading::default()]), None);
        let one = Reading { finished: 1, ..Reading::default() };
        let report = sampler.sample(TICK, &[one]).expect("one request is enough");
        near(report.rps, 10.0 * (1.0 - (-0.1f64).exp()));
        assert_eq!(sampler.sample(Duration::from_secs(10), &[one]), None);
        assert_eq!(sampler.sample(Duration::ZERO, &[one]), None, "no time is no division by zero");
    }
}
