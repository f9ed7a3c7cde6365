//! Builds the model from flags and from a running replica's metrics.

use corelane::Placement;
use corelane_cli::model::{CapacityError, Kind, Mix, Model, Replica, Sharing, Time};

use super::Failure;
use super::arguments::{Question, Settings};
use super::source::{self, Source};
use crate::exposition::{Exposition, Series};

/// Shorter waits are ignored, because they only measure the time between two clock reads.
const NO_WAIT: f64 = 1e-6;

/// Maximum difference in seconds between start times read from the same process; the kernel counts
/// them from boot.
const SAME_START: f64 = 2.0;

const COUNTERS: [&str; 8] = [
    "corelane_load_table_observations_total",
    "corelane_load_table_lane_time_seconds_total",
    "corelane_load_table_lane_time_squared_seconds_total",
    "corelane_load_table_service_time_seconds_total",
    "corelane_load_table_service_time_squared_seconds_total",
    "corelane_lane_cpu_seconds_total",
    "corelane_lane_sleeps_total",
    SLOW_CPU,
];

/// Absent if slow lanes are off.
const SLOW_CPU: &str = "corelane_slow_cpu_seconds_total";

/// A lane counts as always busy if it slept less often than this share of its request count.
const SELDOM: f64 = 0.05;

pub(crate) fn model(question: &Question) -> Result<Model, Failure> {
    let mix = question.mix().map_err(Failure::Usage)?;
    let (given, mix) = match (question.from.last(), &mix) {
        (Some(source), mix) => {
            let (before, now) = source::read(&question.from, question.window)
                .map_err(|error| Failure::NoAnswer(error.to_string()))?;
            let told = Told { before, now };
            told.check(source)?;
            let kinds = told.kinds();
            let replica = told.replica(kinds.iter().map(|(_, n)| n).sum());
            (replica, learnt_mix(mix.as_ref(), kinds, source)?)
        }
        (None, Some(mix)) => (Replica::default(), mix.clone()),
        (None, None) => return Err(Failure::Usage("a mix is needed: --mix or --from".to_owned())),
    };
    let placement = question.settings.placement;
    let replica = question.settings.over(given, placement);
    Model::new(mix, replica).map_err(|error| match error {
        CapacityError::Setting { .. } => Failure::Usage(format!("--{error}")),
        _ => Failure::Usage(format!("--mix: {error}")),
    })
}

impl Settings {
    fn over(&self, mut replica: Replica, placement: Option<Placement>) -> Replica {
        let set = |to: &mut usize, from: Option<u64>| *to = from.map_or(*to, |n| n as usize);
        set(&mut replica.lanes, self.lanes);
        set(&mut replica.slots, self.slots);
        set(&mut replica.queue, self.queue);
        let set = |to: &mut f64, from: Option<f64>| *to = from.unwrap_or(*to);
        set(&mut replica.outside, self.outside);
        set(&mut replica.wake, self.wake);
        set(&mut replica.network, self.network);
        replica.unevenness = self.unevenness;
        if let Some(placement) = placement {
            replica.sharing = sharing(placement);
        }
        if self.keep_alive {
            // A connection stays on its lane even if other lanes are idle.
            replica.sharing = Sharing::Apart;
        }
        replica
    }
}

fn sharing(placement: Placement) -> Sharing {
    match placement {
        Placement::LeastLoaded => Sharing::Together,
        _ => Sharing::Apart,
    }
}

/// Fills in the times missing from the mix with measured times. Without a mix, returns every kind
/// that the replica has measured.
fn learnt_mix(
    mix: Option<&Mix>,
    learnt: Vec<(Kind, f64)>,
    source: &Source,
) -> Result<Mix, Failure> {
    let all: f64 = learnt.iter().map(|(_, n)| n).sum();
    if all <= 0.0 {
        return Err(Failure::NoAnswer(format!("--from {source}: the replica had no requests")));
    }
    let usage = |error: CapacityError| Failure::Usage(error.to_string());
    let Some(mix) = mix else {
        let share = |(kind, n): (Kind, f64)| Kind { share: n / all, ..kind };
        return Mix::new(learnt.into_iter().map(share).collect()).map_err(usage);
    };
    let fill = |kind: &Kind| {
        if kind.service() != Time::ZERO {
            return Ok(kind.clone());
        }
        let known = learnt.iter().find(|(known, _)| known.name == kind.name);
        known.map(|(known, _)| Kind { share: kind.share, ..known.clone() }).ok_or_else(|| {
            let names: Vec<_> = learnt.iter().map(|(known, _)| known.name.as_str()).collect();
            let names = names.join(", ");
            Failure::Usage(format!(
                "--mix {:?}: the replica has not measured it; expected {names}, or a mean",
                kind.name
            ))
        })
    };
    let kinds = mix.kinds().iter().map(fill).collect::<Result<_, _>>()?;
    Mix::new(kinds).map_err(usage)
}

/// Metrics at both ends of a window. `first` is empty if the window begins when the replica starts.
#[derive(Debug)]
struct Told {
    before: Exposition,
    now: Exposition,
}

impl Told {
    /// A decreased counter was reset, so the readings belong to different runs.
    fn check(&self, source: &Source) -> Result<(), Failure> {
        let refuse = |words: &str| Err(Failure::NoAnswer(format!("--from {source}: {words}")));
        if self.now.series("corelane_lane_info").is_empty() {
            return refuse("the metrics have no lanes; expected the metrics of a replica");
        }
        let fell = |name: &&str| {
            let now = self.now.series(name);
            let known = |old: &Series| now.iter().find(|new| new.is(old)).map(|new| new.value);
            self.before.series(name).iter().any(|old| known(old).is_none_or(|new| new < old.value))
        };
        let start = |of: &Exposition| of.sum("process_start_time_seconds");
        let starts = start(&self.before).zip(start(&self.now));
        let restarted = starts.is_some_and(|(old, new)| (new - old).abs() > SAME_START);
        if restarted || COUNTERS.iter().any(fell) {
            return refuse(
                "it is not a later reading of the same replica; expected two readings of one replica that was not \
                 restarted in between, the earlier one first",
            );
        }
        Ok(())
    }

    fn grown(&self, name: &str, like: impl Fn(&Series) -> bool) -> f64 {
        let sum = |all: &Exposition| -> f64 {
            all.series(name).iter().filter(|each| like(each)).map(|each| each.value).sum()
        };
        sum(&self.now) - sum(&self.before)
    }

    fn kinds(&self) -> Vec<(Kind, f64)> {
        let observations = "corelane_load_table_observations_total";
        let rows = self.now.series(observations).iter().filter_map(|row| {
            let of = |name: &str| {
                let like = |each: &Series| {
                    ["route", "method"].iter().all(|label| each.label(label) == row.label(label))
                };
                self.grown(name, like)
            };
            let count = of(observations);
            let sums = |sum: &str, squares: &str| {
                Time::from_sums(count as u64, of(sum), of(squares)).unwrap_or_default()
            };
            let lane = sums(
                "corelane_load_table_lane_time_seconds_total",
                "corelane_load_table_lane_time_squared_seconds_total",
            );
            let service = sums(
                "corelane_load_table_service_time_seconds_total",
                "corelane_load_table_service_time_squared_seconds_total",
            );
            let name = format!("{} {}", row.label("method"), row.label("route"));
            let slow = self.on_slow_lanes(row);
            let kind = Kind { name, share: 0.0, lane, wait: wait(lane, service), slow };
            (count > 0.0).then_some((kind, count))
        });
        rows.collect()
    }

    fn on_slow_lanes(&self, row: &Series) -> bool {
        let slow = self.now.series("corelane_load_table_slow").iter();
        let same = |each: &&Series| {
            ["route", "method"].iter().all(|label| each.label(label) == row.label(label))
        };
        slow.filter(same).any(|each| each.value >= 0.5)
    }

    fn replica(&self, requests: f64) -> Replica {
        let usual = Replica::default();
        let setting = |name: &str| self.now.sum(name).map(|value| value as usize);
        let config = self.now.series("corelane_config_info").first();
        let placement = config.and_then(|info| info.label("placement").parse().ok());
        let total = |name: &str| self.grown(name, |_| true);
        let lane_time = total("corelane_load_table_lane_time_seconds_total");
        // Busy time cannot be used instead, because it excludes sleeping and waking up, and it
        // grows while a lane is preempted.
        let taken = total("corelane_lane_cpu_seconds_total") + total(SLOW_CPU);
        let besides = (taken - lane_time).max(0.0) / requests.max(1.0);
        let sleeps = total("corelane_lane_sleeps_total");
        // The cost per request can be measured only on a lane that rarely slept. Otherwise it
        // cannot be separated from the cost of waking up, so the default applies.
        let awake = sleeps < SELDOM * requests;
        let outside = if awake { besides } else { besides.min(usual.outside) };
        let wake =
            if awake { usual.wake } else { (besides - outside) * requests / sleeps.max(1.0) };
        Replica {
            lanes: self.now.series("corelane_lane_info").len().max(1),
            slots: setting("corelane_config_slots").unwrap_or(usual.slots),
            queue: setting("corelane_config_queue").unwrap_or(usual.queue),
            sharing: placement.map_or(usual.sharing, sharing),
            outside: outside.min(1.0),
            slow_share: self.now.sum("corelane_config_slow_lane_share").unwrap_or(usual.slow_share),
            wake: wake.min(1.0),
            ..usual
        }
    }
}

/// The waiting part of a handler's service time, which is assumed to be independent of the lane
/// time.
fn wait(lane: Time, service: Time) -> Time {
    let mean = service.mean() - lane.mean();
    if mean < NO_WAIT {
        return Time::ZERO;
    }
    let variance = service.deviation().powi(2) - lane.deviation().powi(2);
    Time::new(mean, variance.max(0.0).sqrt()).unwrap_or_default()
}
