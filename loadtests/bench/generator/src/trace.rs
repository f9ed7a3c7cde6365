//! Request arrivals, which are the same for every server with the same plan.

use std::str::FromStr;
use std::time::Duration;

use fastrand::Rng;

use crate::exchange::Kind;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    pub(crate) due: Duration,
    pub(crate) kind: Kind,
    pub(crate) target: usize,
}

/// Shares of `/work` by number of iterations; the rest is `/hello`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mix(Vec<(u64, f64)>);

impl Mix {
    const MOST: usize = 8;

    pub(crate) fn one(ops: u64, share: f64) -> Mix {
        Mix(vec![(ops, share)])
    }

    pub(crate) fn sizes(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|work| work.0)
    }

    fn draw(&self, random: f64) -> Kind {
        let mut below = 0.0;
        for (ops, share) in &self.0 {
            below += share;
            if random < below {
                return Kind::Work(*ops);
            }
        }
        Kind::Hello
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let works = text.split(',').map(|part| {
            let (ops, share) = part.split_once('=')?;
            Some((ops.parse().ok()?, share.parse().ok()?))
        });
        let works: Vec<(u64, f64)> = works.collect::<Option<_>>().ok_or("give OPS=SHARE,...")?;
        let total: f64 = works.iter().map(|work| work.1).sum();
        let fits = works.iter().all(|work| work.1 >= 0.0) && total <= 1.0 + 1e-9;
        let again = |place: usize| works[..place].iter().any(|work| work.0 == works[place].0);
        match works.len() {
            ..=Self::MOST if fits && !(0..works.len()).any(again) => Ok(Mix(works)),
            ..=Self::MOST => Err("each size may occur once, and shares add up to at most 1".into()),
            _ => Err(format!("at most {} sizes", Self::MOST)),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) rate: f64,
    pub(crate) works: Mix,
    /// Number of servers. Each arrival goes to a random server.
    pub(crate) targets: usize,
}

impl Plan {
    pub(crate) fn trace(&self, duration: Duration, seed: u64) -> Vec<Arrival> {
        let mut random = Rng::with_seed(seed);
        let mean = 1.0 / self.rate;
        let mut due = 0.0;
        let mut trace = Vec::new();
        loop {
            // Poisson arrivals, as from many independent clients: the inverse of the exponential
            // distribution. f64() is below 1.
            due += -(1.0 - random.f64()).ln() * mean;
            if due >= duration.as_secs_f64() {
                return trace;
            }
            let kind = self.works.draw(random.f64());
            let target = if self.targets > 1 { random.usize(..self.targets) } else { 0 };
            trace.push(Arrival { due: Duration::from_secs_f64(due), kind, target });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn plan() -> Plan {
        Plan { rate: 1000.0, works: "7=0.1,9=0.3".parse().expect("a mix"), targets: 3 }
    }

    #[test]
    fn a_seed_gives_the_same_trace_again() {
        let plan = plan();
        assert_eq!(plan.trace(MINUTE, 7), plan.trace(MINUTE, 7));
        assert_ne!(plan.trace(MINUTE, 7), plan.trace(MINUTE, 8));
    }
}
