use corelane_cli::model::{
    Autoscaling, Bound, CapacityError, Estimated, Kind, Model, Plan, Sharing, Simulated, Target,
};
use serde::Serialize;

use super::arguments::{Load, Question};

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) model: Model,
    pub(crate) load: Option<f64>,
    pub(crate) target: Option<Target>,
    pub(crate) spare: u64,
    pub(crate) growth: f64,
    pub(crate) plan: Option<Plan>,
    pub(crate) autoscaling: Option<Autoscaling>,
    pub(crate) at: Option<At>,
}

#[derive(Debug)]
pub(crate) struct At {
    pub(crate) replicas: u64,
    pub(crate) rate: f64,
    pub(crate) estimated: Estimated,
    /// `None` at or above the knee, where the longer the simulation runs, the longer the waits
    /// become.
    pub(crate) simulated: Option<Simulated>,
    pub(crate) in_time: Option<f64>,
    pub(crate) met: Option<bool>,
}

impl Answer {
    pub(crate) fn new(question: &Question, model: Model) -> Result<Self, CapacityError> {
        let target = question.quantile().map(|(share, within)| Target {
            share,
            within,
            shed: question.shed,
        });
        let load = question.load().map(|load| match load {
            Load::Rate(rate) => rate,
            Load::Used(share) => share * model.knee().rate,
        });
        let simulation = &question.simulation();
        let plan = match &target {
            // Without a load, one replica is enough.
            Some(target) => {
                Some(model.plan(load.unwrap_or_default(), target, question.spare, simulation)?)
            }
            None => None,
        };
        let needed = plan.and_then(|plan| plan.needed);
        let alone = matches!(question.load(), Some(Load::Used(_))).then_some(1);
        let replicas = question.replicas.or(alone).or(needed).unwrap_or(1);
        let at = load.map(|load| At::new(&model, load, replicas, target.as_ref(), question));
        let autoscaling = load.zip(plan.as_ref()).and_then(|(load, plan)| {
            model.autoscaling(load, plan, question.spare, question.growth)
        });
        let Question { spare, growth, .. } = *question;
        Ok(Answer { model, load, target, spare, growth, plan, autoscaling, at })
    }

    /// True if the given replicas, or any number of replicas, can serve the load. Without a target,
    /// true if the load is below the knee.
    pub(crate) fn met(&self) -> bool {
        match (&self.at, &self.plan) {
            (Some(at), _) => at.met.unwrap_or(at.rate < self.model.knee().rate),
            (None, Some(plan)) => plan.needed.is_some(),
            (None, None) => true,
        }
    }

    pub(crate) fn bound(&self) -> &'static str {
        match self.model.knee().bound {
            Bound::Lanes => "lanes",
            Bound::Slots => "slots",
        }
    }
}

impl At {
    fn new(
        model: &Model,
        load: f64,
        replicas: u64,
        target: Option<&Target>,
        question: &Question,
    ) -> At {
        let rate = load / replicas as f64;
        let estimated = model.estimate(rate);
        let stays = rate < model.knee().rate || estimated.shed > 0.0;
        let simulated = stays.then(|| model.simulate(&question.simulation(), rate));
        // Above the knee, an unbounded queue keeps growing, so the result would depend on the
        // simulated time.
        let simulated = simulated.filter(|seen| rate < model.knee().rate || seen.shed > 0.0);
        let met = target.map(|target| simulated.as_ref().is_some_and(|seen| target.is_met(seen)));
        let in_time =
            simulated.as_ref().zip(target).map(|(seen, target)| seen.within(target.within));
        At { replicas, rate, estimated, simulated, in_time, met }
    }

    /// Latency, in seconds, that this share of the requests of a kind (or of all requests) does not
    /// exceed. Infinite at or above the knee.
    pub(crate) fn quantile(&self, kind: Option<usize>, share: f64) -> f64 {
        self.simulated.as_ref().map_or(f64::INFINITY, |seen| seen.quantile(kind, share))
    }
}

/// The JSON answer. Times are in seconds, rates are per second, and infinite values are null.
#[derive(Serialize)]
struct Document<'a> {
    knee_rps: f64,
    limited_by: &'static str,
    replica: ReplicaPart,
    kinds: Vec<KindPart<'a>>,
    max_rps_at_target: Option<f64>,
    replicas_needed: Option<u64>,
    replicas: Option<u64>,
    at: Option<AtPart<'a>>,
    hpa: Option<HpaPart>,
}

#[derive(Serialize)]
struct ReplicaPart {
    lanes: usize,
    slots: usize,
    queue: usize,
    lanes_share_work: bool,
    unevenness: f64,
    outside_seconds: f64,
    wake_seconds: f64,
    network_seconds: f64,
    lane_time_mean_seconds: f64,
    lane_time_deviation_seconds: f64,
}

#[derive(Serialize)]
struct KindPart<'a> {
    kind: &'a str,
    share: f64,
    lane_mean_seconds: f64,
    lane_deviation_seconds: f64,
    service_mean_seconds: f64,
    service_deviation_seconds: f64,
}

#[derive(Serialize)]
struct AtPart<'a> {
    replicas: u64,
    rps_per_replica: f64,
    utilization: f64,
    method: &'static str,
    #[serde(flatten)]
    all: Latency,
    shed: f64,
    mean_wait_seconds: f64,
    closed_form: Latency,
    kinds: Vec<OfKind<'a>>,
    in_time: Option<f64>,
    target_met: Option<bool>,
}

#[derive(Serialize)]
struct OfKind<'a> {
    kind: &'a str,
    #[serde(flatten)]
    simulated: Latency,
    closed_form: Latency,
}

#[derive(Serialize)]
struct Latency {
    mean_seconds: f64,
    p50_seconds: f64,
    p90_seconds: f64,
    p99_seconds: f64,
    p999_seconds: f64,
}

#[derive(Serialize)]
struct HpaPart {
    lane_busy_ratio: f64,
    rps_per_replica: f64,
    min_replicas: u64,
    max_replicas: u64,
}

impl Latency {
    fn new(mean: f64, quantile: impl Fn(f64) -> f64) -> Latency {
        Latency {
            mean_seconds: mean,
            p50_seconds: quantile(0.5),
            p90_seconds: quantile(0.9),
            p99_seconds: quantile(0.99),
            p999_seconds: quantile(0.999),
        }
    }

    fn simulated(at: &At, kind: Option<usize>) -> Latency {
        let mean = at.simulated.as_ref().map_or(f64::INFINITY, |seen| seen.mean(kind));
        Latency::new(mean, |share| at.quantile(kind, share))
    }

    fn closed_form(at: &At, kind: Option<usize>) -> Latency {
        Latency::new(at.estimated.mean(kind), |share| at.estimated.quantile(kind, share))
    }
}

impl Answer {
    pub(crate) fn json(&self) -> String {
        let knee = self.model.knee();
        let kinds = self.model.mix().kinds();
        let document = Document {
            knee_rps: knee.rate,
            limited_by: self.bound(),
            replica: self.replica_part(),
            kinds: kinds.iter().map(KindPart::new).collect(),
            max_rps_at_target: self.plan.map(|plan| plan.carried),
            replicas_needed: self.plan.filter(|_| self.load.is_some()).and_then(|plan| plan.needed),
            replicas: self.plan.filter(|_| self.load.is_some()).and_then(|plan| plan.replicas),
            at: self.at.as_ref().map(|at| AtPart::new(at, kinds)),
            hpa: self.autoscaling.map(|hpa| HpaPart {
                lane_busy_ratio: hpa.busy,
                rps_per_replica: hpa.rate,
                min_replicas: hpa.min,
                max_replicas: hpa.max,
            }),
        };
        let json = serde_json::to_string_pretty(&document);
        json.expect("names are text and figures are numbers") + "\n"
    }

    fn replica_part(&self) -> ReplicaPart {
        let replica = self.model.replica();
        let lane_time = self.model.lane_time();
        ReplicaPart {
            lanes: replica.lanes,
            slots: replica.slots,
            queue: replica.queue,
            lanes_share_work: replica.sharing == Sharing::Together,
            unevenness: replica.unevenness,
            outside_seconds: replica.outside,
            wake_seconds: replica.wake,
            network_seconds: replica.network,
            lane_time_mean_seconds: lane_time.mean(),
            lane_time_deviation_seconds: lane_time.deviation(),
        }
    }
}

impl<'a> KindPart<'a> {
    fn new(kind: &'a Kind) -> Self {
        let service = kind.service();
        KindPart {
            kind: &kind.name,
            share: kind.share,
            lane_mean_seconds: kind.lane.mean(),
            lane_deviation_seconds: kind.lane.deviation(),
            service_mean_seconds: service.mean(),
            service_deviation_seconds: service.deviation(),
        }
    }
}

impl<'a> AtPart<'a> {
    fn new(at: &At, kinds: &'a [Kind]) -> Self {
        let of_kind = |(place, kind): (usize, &'a Kind)| OfKind {
            kind: &kind.name,
            simulated: Latency::simulated(at, Some(place)),
            closed_form: Latency::closed_form(at, Some(place)),
        };
        AtPart {
            replicas: at.replicas,
            rps_per_replica: at.rate,
            utilization: at.estimated.utilization,
            method: "simulation",
            all: Latency::simulated(at, None),
            shed: at.simulated.as_ref().map_or(at.estimated.shed, |seen| seen.shed),
            mean_wait_seconds: at.estimated.wait,
            closed_form: Latency::closed_form(at, None),
            kinds: kinds.iter().enumerate().map(of_kind).collect(),
            in_time: at.in_time,
            target_met: at.met,
        }
    }
}
