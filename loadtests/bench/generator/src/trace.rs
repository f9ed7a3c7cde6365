//! When requests are due, and which: the same for every server that is given the same plan.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use crate::exchange::Kind;

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// All gaps are the same.
    Constant,
    /// Gaps are exponential: many independent clients.
    Poisson,
}

/// One request of the trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    /// Counted from the begin.
    pub(crate) due: Duration,
    pub(crate) kind: Kind,
    /// To which of the servers it goes.
    pub(crate) target: usize,
}

/// What the trace is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Requests per second.
    pub(crate) rate: f64,
    pub(crate) arrivals: Arrivals,
    /// Share of the requests that are [`Kind::Work`].
    pub(crate) work_share: f64,
    /// Servers, of which each arrival takes one at random.
    pub(crate) targets: usize,
}

impl Plan {
    /// Every arrival within `duration`.
    pub(crate) fn trace(&self, duration: Duration, seed: u64) -> Vec<Arrival> {
        let mut random = Rng::with_seed(seed);
        let mean = 1.0 / self.rate;
        let mut due = 0.0;
        let mut trace = Vec::new();
        loop {
            due += match self.arrivals {
                Arrivals::Constant => mean,
                // Inverse of the exponential distribution; f64() is below 1.
                Arrivals::Poisson => -(1.0 - random.f64()).ln() * mean,
            };
            if due >= duration.as_secs_f64() {
                return trace;
            }
            let kind = if random.f64() < self.work_share { Kind::Work } else { Kind::Hello };
            let target = if self.targets > 1 { random.usize(..self.targets) } else { 0 };
            trace.push(Arrival { due: Duration::from_secs_f64(due), kind, target });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan =
        Plan { rate: 1000.0, arrivals: Arrivals::Poisson, work_share: 0.1, targets: 3 };
    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_gives_the_same_trace_again() {
        assert_eq!(PLAN.trace(MINUTE, 7), PLAN.trace(MINUTE, 7));
        assert_ne!(PLAN.trace(MINUTE, 7), PLAN.trace(MINUTE, 8));
    }

    #[test]
    fn rate_and_mix_are_as_planned() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let trace = Plan { arrivals, ..PLAN }.trace(MINUTE, 7);
            assert!(trace.is_sorted_by_key(|arrival| arrival.due));
            let rate = trace.len() as f64 / 60.0;
            assert!((rate - 1000.0).abs() < 20.0, "{rate}");
            let work = trace.iter().filter(|arrival| arrival.kind == Kind::Work).count();
            let share = work as f64 / trace.len() as f64;
            assert!((share - 0.1).abs() < 0.01, "{share}");
            for target in 0..3 {
                let share = trace.iter().filter(|arrival| arrival.target == target).count();
                let share = share as f64 / trace.len() as f64;
                assert!((share - 1.0 / 3.0).abs() < 0.02, "{target}: {share}");
            }
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let trace = PLAN.trace(MINUTE, 7);
        let gaps: Vec<_> =
            trace.windows(2).map(|pair| (pair[1].due - pair[0].due).as_secs_f64()).collect();
        // The standard deviation of an exponential distribution is its mean.
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
