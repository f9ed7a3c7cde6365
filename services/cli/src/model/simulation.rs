//! Simulates random arrivals at lanes and the lanes' scheduling.

use super::gamma::exponential;
use super::job::Job;
use super::lane::LaneModel;
use super::{Mix, Replica};
use fastrand::Rng;

/// Simulation parameters. The same seed produces the same requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// Number of requests to measure, after a warm-up of a tenth of this number.
    pub requests: usize,
    /// Seed of the random number generator.
    pub seed: u64,
}

impl Default for Simulation {
    fn default() -> Self {
        Simulation { requests: 200_000, seed: 1 }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Sorted seconds from a request's arrival to the end of its response, for each kind of the
    /// mix.
    pub(super) times: Vec<Vec<f64>>,
    pub(super) all: Vec<f64>,
    /// Share of shed requests.
    pub shed: f64,
    /// Share of the time during which lanes were awake, across all lanes.
    pub busy: f64,
}

impl Simulated {
    /// Latency quantile of a kind in seconds; `None` means all kinds. Ignores shed requests; 0 if
    /// there were no requests.
    pub fn quantile(&self, kind: Option<usize>, share: f64) -> f64 {
        let times = kind.map_or(&self.all, |kind| &self.times[kind]);
        let last = times.len().saturating_sub(1);
        times.get(((last as f64 * share) as usize).min(last)).copied().unwrap_or(0.0)
    }

    /// Share of all requests answered within this many seconds. Shed requests count as unanswered.
    pub fn within(&self, seconds: f64) -> f64 {
        let answered = self.all.partition_point(|time| *time <= seconds) as f64;
        answered / self.all.len().max(1) as f64 * (1.0 - self.shed)
    }

    /// Mean seconds for the requests of a kind, or of all kinds; 0 if there were no requests.
    pub fn mean(&self, kind: Option<usize>) -> f64 {
        let times = kind.map_or(&self.all, |kind| &self.times[kind]);
        times.iter().sum::<f64>() / times.len().max(1) as f64
    }
}

impl Simulation {
    /// Simulates the busiest queue of a replica under `rate` requests per second for the replica.
    pub(super) fn run(&self, mix: &Mix, replica: &Replica, rate: f64) -> Simulated {
        let mut random = Rng::with_seed(self.seed);
        let rate = rate * replica.busiest();
        let mut lanes: Vec<LaneModel> =
            (0..replica.servers()).map(|_| LaneModel::new(replica)).collect();
        let mut finished = Vec::new();
        let (mut now, mut begun, mut idle) = (0.0, 0.0, 0.0);
        let warm_up = self.requests / 10;
        let asleep = |lanes: &[LaneModel]| lanes.iter().map(|lane| lane.asleep).sum::<f64>();
        for number in 0..warm_up + self.requests {
            now += exponential(1.0 / rate, &mut random);
            let kind = choose(mix, random.f64());
            let of = &mix.kinds()[kind];
            let (lane, wait) = (of.lane.draw(&mut random), of.wait.draw(&mut random));
            let counted = number >= warm_up;
            let expected = of.lane.mean();
            for lane in &mut lanes {
                lane.run_until(now, &mut finished);
            }
            if number == warm_up {
                (begun, idle) = (now, asleep(&lanes));
            }
            // With a single queue, sending a request to the lane that finishes first is the same as
            // waiting for that lane.
            let least =
                |a: &&mut LaneModel, b: &&mut LaneModel| a.left(now).total_cmp(&b.left(now));
            let chosen = lanes.iter_mut().min_by(least).expect("a replica has a lane");
            chosen.arrive(Job { kind, counted, at: now, lane, wait, expected, slow: of.slow });
        }
        let seconds = (now - begun) * lanes.len() as f64;
        let busy = 1.0 - (asleep(&lanes) - idle) / seconds.max(f64::MIN_POSITIVE);
        for lane in &mut lanes {
            lane.run_until(f64::INFINITY, &mut finished);
        }
        self.collect(mix, replica, &finished, busy)
    }

    fn collect(
        &self,
        mix: &Mix,
        replica: &Replica,
        finished: &[(Job, Option<f64>)],
        busy: f64,
    ) -> Simulated {
        let mut times = vec![Vec::new(); mix.kinds().len()];
        let mut shed = 0;
        for (job, ended) in finished.iter().filter(|(job, _)| job.counted) {
            match ended {
                Some(ended) => times[job.kind].push(ended - job.at + replica.network),
                None => shed += 1,
            }
        }
        let mut all = times.concat();
        all.sort_unstable_by(f64::total_cmp);
        times.iter_mut().for_each(|of_kind| of_kind.sort_unstable_by(f64::total_cmp));
        let shed = f64::from(shed) / self.requests.max(1) as f64;
        Simulated { times, all, shed, busy: busy.clamp(0.0, 1.0) }
    }
}

fn choose(mix: &Mix, chance: f64) -> usize {
    let mut left = chance;
    let kinds = mix.kinds();
    let found = kinds.iter().position(|kind| {
        left -= kind.share;
        left < 0.0
    });
    found.unwrap_or(kinds.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wait::{lee_longton, pollaczek_khinchine, wake_up};
    use crate::model::{Kind, Sharing, Time};

    fn bare(lanes: usize, sharing: Sharing) -> Replica {
        let slots = 1 << 20;
        Replica { lanes, slots, sharing, outside: 0.0, wake: 0.0, ..Replica::default() }
    }

    fn simulate(time: Time, replica: &Replica, rate: f64) -> Simulated {
        let name = "GET /work".to_owned();
        let kind = Kind { name, share: 1.0, lane: time, wait: Time::ZERO, slow: false };
        let mix = Mix::new(vec![kind]).expect("a mix");
        Simulation { requests: 400_000, seed: 7 }.run(&mix, replica, rate)
    }

    fn close(seen: f64, wanted: f64, within: f64, what: &str) {
        assert!((seen / wanted - 1.0).abs() < within, "{what}: {seen}, not {wanted}");
    }

    #[test]
    fn one_lane_is_an_m_m_1_queue() {
        // Cheap requests run in order of arrival, so the time in the M/M/1 queue is exponential.
        let mean = 50e-6;
        for busy in [0.3, 0.8] {
            let time = Time::exponential(mean).expect("a time");
            let seen = simulate(time, &bare(1, Sharing::Apart), busy / mean);
            let response = mean / (1.0 - busy);
            close(seen.mean(None), response, 0.03, "mean");
            close(seen.quantile(None, 0.5), response * 2f64.ln(), 0.03, "median");
            close(seen.within(response), 1.0 - f64::exp(-1.0), 0.03, "within the mean");
            close(seen.quantile(None, 0.99), response * 100f64.ln(), 0.08, "p99");
            close(seen.busy, busy, 0.01, "busy");
        }
    }

    #[test]
    fn one_lane_is_an_m_g_1_queue() {
        // If all requests are of one expensive kind, they keep their order while they wait for
        // their turns.
        for (mean, scv) in [(50e-6, 0.0), (7e-3, 0.0), (7e-3, 0.25), (1e-3, 4.0)] {
            let time = Time::new(mean, mean * f64::sqrt(scv)).expect("a time");
            let seen = simulate(time, &bare(1, Sharing::Apart), 0.8 / mean);
            let wait = pollaczek_khinchine(0.8 / mean, mean, time.second_moment());
            close(seen.mean(None), wait + mean, 0.05, "mean");
        }
    }

    #[test]
    fn a_lane_that_wakes_up_is_welchs() {
        let time = Time::exponential(50e-6).expect("a time");
        let replica = Replica { wake: 40e-6, ..bare(1, Sharing::Apart) };
        let seen = simulate(time, &replica, 10_000.0);
        let wait = pollaczek_khinchine(10_000.0, 50e-6, time.second_moment());
        close(seen.mean(None), wait + wake_up(10_000.0, 40e-6) + 50e-6, 0.02, "mean");
    }

    #[test]
    fn lanes_together_are_an_m_m_k_queue() {
        let time = Time::exponential(1e-3).expect("a time");
        let seen = simulate(time, &bare(4, Sharing::Together), 3200.0);
        let wait = lee_longton(3200.0, 4, time);
        close(seen.mean(None), wait + 1e-3, 0.05, "mean");
    }

    #[test]
    fn lanes_apart_are_as_one_with_its_part() {
        let time = Time::exponential(1e-3).expect("a time");
        let one = simulate(time, &bare(1, Sharing::Apart), 800.0);
        assert_eq!(simulate(time, &bare(4, Sharing::Apart), 3200.0), one);
    }

    #[test]
    fn a_full_queue_sheds_what_formulas_say() {
        // Handlers that wait off the lane act as 4 servers with room for 6 more requests.
        let replica = Replica { slots: 4, queue: 6, ..bare(1, Sharing::Apart) };
        let name = "GET /".to_owned();
        let wait = Time::exponential(10e-3).expect("a time");
        let kind = Kind { name, share: 1.0, lane: Time::ZERO, wait, slow: false };
        let mix = Mix::new(vec![kind]).expect("a mix");
        let seen = Simulation { requests: 200_000, seed: 3 }.run(&mix, &replica, 500.0);
        close(seen.shed, crate::model::wait::shed_share(4, 6, 5.0), 0.03, "shed");
        // One lane at 1.5 times its knee sheds expensive requests; cheap requests wait in its
        // sockets.
        let replica = Replica { slots: 1, queue: 9, ..bare(1, Sharing::Apart) };
        let dear = Time::exponential(1e-3).expect("a time");
        let seen = simulate(dear, &replica, 1500.0);
        close(seen.shed, 1.0 / 3.0, 0.05, "shed");
        assert_eq!(seen.within(f64::INFINITY), 1.0 - seen.shed, "what was shed has no time");
        let brief = Time::exponential(50e-6).expect("a time");
        assert_eq!(simulate(brief, &replica, 30_000.0).shed, 0.0);
    }
}
