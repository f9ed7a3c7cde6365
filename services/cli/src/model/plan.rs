//! Derives the load that meets a latency target, and the number of replicas.

use super::simulation::{Simulated, Simulation};
use super::{CapacityError, Model};

/// A latency target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Share of requests that must meet the target: 0.99 for p99.
    pub share: f64,
    /// Time limit in seconds.
    pub within: f64,
    /// Maximum share of shed requests.
    pub shed: f64,
}

/// Replicas for a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Requests per second that one replica handles within the target; 0 if it never meets the
    /// target.
    pub carried: f64,
    /// Replicas needed for the load, without spare replicas; `None` if the target cannot be met.
    pub needed: Option<u64>,
    /// Replicas needed for the load, plus spare replicas.
    pub replicas: Option<u64>,
}

/// HorizontalPodAutoscaler settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Autoscaling {
    /// Target busy share of a replica's lanes; above it, replicas are added.
    pub busy: f64,
    /// Requests per second per replica at that busy share.
    pub rate: f64,
    /// Minimum replicas: one plus the spare replicas.
    pub min: u64,
    /// Maximum replicas: enough for the grown load, plus the spare replicas.
    pub max: u64,
}

const NEAR: f64 = 0.005;

impl Target {
    /// Whether a simulated load meets the target. A shed request misses the target.
    pub fn is_met(&self, seen: &Simulated) -> bool {
        let answered = 1.0 - seen.shed;
        let share = self.share / answered;
        seen.shed <= self.shed && share <= 1.0 && seen.quantile(None, share) <= self.within
    }

    fn check(&self) -> Result<(), CapacityError> {
        let rules = [
            ("share", self.share, self.share > 0.0 && self.share < 1.0, "above 0, below 1"),
            ("within", self.within, self.within > 0.0 && self.within <= 3600.0, "up to an hour"),
            ("shed", self.shed, (0.0..1.0).contains(&self.shed), "from 0, below 1"),
        ];
        let wrong = rules.into_iter().find(|(_, _, holds, _)| !holds);
        wrong.map_or(Ok(()), |(name, value, _, allowed)| {
            Err(CapacityError::Setting { name, value, allowed })
        })
    }
}

impl Model {
    /// Finds the highest load, in requests per second, that one replica handles within the target;
    /// 0 if there is none. Bisects with the same random numbers at each load.
    pub fn highest(&self, target: &Target, simulation: &Simulation) -> Result<f64, CapacityError> {
        target.check()?;
        let knee = self.knee().rate;
        let met = |share: f64| target.is_met(&self.simulate(simulation, share * knee));
        let (mut low, mut high) = (0.0, 1.0);
        while high - low > NEAR {
            let middle = 0.5 * (low + high);
            *(if met(middle) { &mut low } else { &mut high }) = middle;
        }
        Ok(low * knee)
    }

    /// Plans the replicas that meet the target at a finite load in requests per second while
    /// `spare` of them are unavailable.
    pub fn plan(
        &self,
        load: f64,
        target: &Target,
        spare: u64,
        simulation: &Simulation,
    ) -> Result<Plan, CapacityError> {
        if !(load.is_finite() && load >= 0.0) {
            let (name, allowed) = ("load", "a finite number from 0");
            return Err(CapacityError::Setting { name, value: load, allowed });
        }
        let carried = self.highest(target, simulation)?;
        Ok(Plan::of(load, carried, spare))
    }

    /// Settings that meet the target while the load grows by `growth` (0.25 for 25%; at least 0)
    /// until a new replica is ready; `None` if the target cannot be met.
    pub fn autoscaling(
        &self,
        load: f64,
        plan: &Plan,
        spare: u64,
        growth: f64,
    ) -> Option<Autoscaling> {
        plan.needed?;
        let rate = plan.carried / (1.0 + growth);
        let most = Plan::of(load * (1.0 + growth), plan.carried, spare);
        let busy = rate * self.lane_time().mean() / self.replica().lanes as f64;
        let min = spare.saturating_add(1);
        Some(Autoscaling { busy, rate, min, max: most.replicas?.max(min.saturating_add(1)) })
    }
}

impl Plan {
    fn of(load: f64, carried: f64, spare: u64) -> Plan {
        // Loads and rates are not known to within a thousandth, so a smaller excess does not add a
        // replica.
        let needed = (load / carried - 1e-3).ceil().max(1.0) as u64;
        let needed = (carried > 0.0).then_some(needed);
        Plan { carried, needed, replicas: needed.map(|needed| needed.saturating_add(spare)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Replica;

    fn model() -> Model {
        let replica = Replica { outside: 0.0, wake: 0.0, ..Replica::default() };
        Model::new("a=100%:1ms:1ms".parse().expect("a mix"), replica).expect("a model")
    }

    const TARGET: Target = Target { share: 0.99, within: 0.02, shed: 0.001 };

    #[test]
    fn the_highest_load_is_the_one_whose_quantile_is_the_target() {
        // M/M/1: -ln(0.01) / (1000 - rate) = 20 ms.
        let simulation = Simulation { requests: 200_000, seed: 5 };
        let carried = model().highest(&TARGET, &simulation).expect("a target");
        let exact = 1000.0 + 0.01f64.ln() / 0.02;
        assert!((carried / exact - 1.0).abs() < 0.04, "{carried}, not {exact}");
        // Not even 99% of the requests can do a millisecond of work within a millisecond.
        let never = Target { within: 1e-3, ..TARGET };
        assert_eq!(model().highest(&never, &simulation), Ok(0.0));
        assert_eq!(Plan::of(100.0, 0.0, 1).replicas, None);
        assert_eq!(Plan::of(1e300, 1.0, 2).replicas, Some(u64::MAX), "more than can be counted");
        for load in [f64::NAN, f64::INFINITY, -1.0] {
            model().plan(load, &TARGET, 1, &simulation).expect_err("it is no load");
        }
    }

    #[test]
    fn replicas_are_whole_and_spare_ones_are_added() {
        let plan = Plan::of(5000.0, 770.0, 1);
        assert_eq!((plan.needed, plan.replicas), (Some(7), Some(8)));
        assert_eq!(Plan::of(770.0 * 7.0 + 0.5, 770.0, 0).needed, Some(7), "nobody counts so well");
        assert_eq!(Plan::of(0.0, 770.0, 0).needed, Some(1));
        let scaled = model().autoscaling(5000.0, &plan, 1, 0.25).expect("it is met");
        assert_eq!((scaled.min, scaled.max), (2, 10));
        assert!((scaled.busy - 0.616).abs() < 1e-9 && (scaled.rate - 616.0).abs() < 1e-9);
    }

    #[test]
    fn a_target_has_bounds() {
        let wrong = [
            Target { share: 1.0, ..TARGET },
            Target { within: 0.0, ..TARGET },
            Target { shed: 1.0, ..TARGET },
        ];
        for target in wrong {
            model().highest(&target, &Simulation::default()).expect_err("out of bounds");
        }
    }
}
