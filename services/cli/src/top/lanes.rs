//! Lane activity between two reads.

use std::cmp::Ordering;
use std::time::Instant;

use clap::ValueEnum;
use serde_json::Value;

use crate::exposition::Exposition;

const LATENCY: &str = "corelane_request_duration_seconds_bucket";

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) view: Value,
    pub(super) metrics: Exposition,
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) replicas: Vec<Replica>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) error: Option<String>,
    pub(super) phase: String,
    pub(super) lanes: Vec<Lane>,
    pub(super) latency: Histogram,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lane {
    pub(super) replica: String,
    pub(super) index: u64,
    pub(super) cpu: Option<u64>,
    pub(super) busy: f64,
    pub(super) slow: f64,
    pub(super) stalled: bool,
    pub(super) requests: f64,
    pub(super) p99: Option<Bound>,
    pub(super) in_flight: u64,
    pub(super) queued: u64,
    pub(super) connections: u64,
    pub(super) parked: u64,
    pub(super) expected_ms: f64,
}

/// Cumulative request counts by upper bound in seconds, ascending.
type Histogram = Vec<(f64, f64)>;

fn add(counts: &mut Histogram, bound: f64, count: f64) {
    match counts.binary_search_by(|(other, _)| other.total_cmp(&bound)) {
        Ok(place) => counts[place].1 += count,
        Err(place) => counts.insert(place, (bound, count)),
    }
}

/// A quantile that is only as precise as the histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    Above(f64),
}

impl Bound {
    fn seconds(self) -> f64 {
        match self {
            Bound::AtMost(seconds) => seconds,
            Bound::Above(seconds) => seconds.next_up(),
        }
    }
}

/// Columns to sort by.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(super) enum Sort {
    /// Replica, then lane
    #[default]
    Replica,
    /// Busiest first
    Busy,
    /// Most requests first
    Requests,
    /// Slowest first
    P99,
    /// Most connections first
    Connections,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Replica => Sort::Busy,
            Sort::Busy => Sort::Requests,
            Sort::Requests => Sort::P99,
            Sort::P99 => Sort::Connections,
            Sort::Connections => Sort::Replica,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Replica => "replica",
            Sort::Busy => "busy",
            Sort::Requests => "requests",
            Sort::P99 => "p99",
            Sort::Connections => "connections",
        }
    }

    fn compare(self, a: &Lane, b: &Lane) -> Ordering {
        let p99 = |lane: &Lane| lane.p99.map_or(0.0, Bound::seconds);
        match self {
            Sort::Replica => Ordering::Equal,
            Sort::Busy => b.busy.total_cmp(&a.busy),
            Sort::Requests => b.requests.total_cmp(&a.requests),
            Sort::P99 => p99(b).total_cmp(&p99(a)),
            Sort::Connections => b.connections.cmp(&a.connections),
        }
    }
}

impl View {
    pub(super) fn lanes(&self, sort: Sort, filter: &str) -> Vec<&Lane> {
        let replicas = self.replicas.iter().filter(|replica| replica.name.contains(filter));
        let mut lanes: Vec<_> = replicas.flat_map(|replica| &replica.lanes).collect();
        lanes.sort_by(|a, b| sort.compare(a, b));
        lanes
    }

    pub(super) fn p99(&self) -> Option<Bound> {
        let mut all = Histogram::new();
        for &(bound, count) in self.replicas.iter().flat_map(|replica| &replica.latency) {
            add(&mut all, bound, count);
        }
        quantile(&all)
    }
}

pub(super) fn replica(
    name: &str,
    before: Option<&Reading>,
    now: Result<&Reading, &String>,
) -> Replica {
    let now = match now {
        Ok(now) => now,
        Err(error) => {
            let (name, error) = (name.to_owned(), Some(error.clone()));
            return Replica { name, error, ..Replica::default() };
        }
    };
    // Counters are reset when the process restarts.
    let uptime = |reading: &Reading| reading.view["uptime_seconds"].as_f64().unwrap_or_default();
    let before = before.filter(|before| uptime(before) <= uptime(now));
    let lanes = now.view["lanes"].as_array().into_iter().flatten();
    Replica {
        name: name.to_owned(),
        error: None,
        phase: now.view["phase"].as_str().unwrap_or_default().to_owned(),
        lanes: lanes
            .enumerate()
            .map(|(index, view)| lane(name, index, view, before, now))
            .collect(),
        latency: between(before, now, |_| true),
    }
}

fn lane(
    replica: &str,
    index: usize,
    view: &Value,
    before: Option<&Reading>,
    now: &Reading,
) -> Lane {
    let seconds = before.map_or(0.0, |before| (now.at - before.at).as_secs_f64());
    let rate = |pointer: &str| {
        let earlier =
            before.and_then(|before| before.view["lanes"][index].pointer(pointer)?.as_f64());
        let later = view.pointer(pointer).and_then(Value::as_f64);
        match (earlier, later) {
            (Some(earlier), Some(later)) if seconds > 0.0 => ((later - earlier) / seconds).max(0.0),
            _ => 0.0,
        }
    };
    let count = |name: &str| view[name].as_u64().unwrap_or_default();
    let label = index.to_string();
    Lane {
        replica: replica.to_owned(),
        index: count("lane"),
        cpu: view["cpu"].as_u64(),
        busy: view["busy"].as_f64().unwrap_or_default(),
        slow: rate("/slow/cpu_seconds").min(1.0),
        stalled: view["stalled"] == true,
        requests: rate("/totals/requests"),
        p99: quantile(&between(before, now, |lane| lane == label)),
        in_flight: count("in_flight"),
        queued: count("queued"),
        connections: count("connections"),
        parked: count("connections_parked"),
        expected_ms: view["expected_work_ms"].as_f64().unwrap_or_default(),
    }
}

fn between(before: Option<&Reading>, now: &Reading, of: impl Fn(&str) -> bool) -> Histogram {
    let mut counts = Histogram::new();
    let readings = before.into_iter().map(|before| (before, -1.0)).chain([(now, 1.0)]);
    for (reading, sign) in readings {
        for series in reading.metrics.series(LATENCY).iter().filter(|one| of(one.label("lane"))) {
            if let Ok(bound) = series.label("le").parse() {
                add(&mut counts, bound, sign * series.value);
            }
        }
    }
    counts
}

fn quantile(counts: &Histogram) -> Option<Bound> {
    let all = counts.last().map(|(_, all)| *all).filter(|&all| all > 0.0)?;
    let (bound, _) = counts.iter().find(|(_, count)| *count >= 0.99 * all)?;
    let (largest, _) = counts.iter().rev().find(|(bound, _)| bound.is_finite())?;
    Some(if bound.is_finite() { Bound::AtMost(*bound) } else { Bound::Above(*largest) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn reading(at: Instant, uptime: f64, fast: u32, all: u32) -> Reading {
        let view = json!({
            "uptime_seconds": uptime,
            "phase": "serving",
            "lanes": [{
                "lane": 0, "cpu": 3, "busy": 0.5, "stalled": false, "connections": 7,
                "slow": { "cpu_seconds": uptime / 4.0 }, "totals": { "requests": all },
            }],
        });
        let metrics = format!(
            "{LATENCY}{{le=\"0.001\",lane=\"0\",route=\"/\"}} {fast}\n\
             {LATENCY}{{le=\"10.0\",lane=\"0\",route=\"/\"}} {fast}\n\
             {LATENCY}{{le=\"+Inf\",lane=\"0\",route=\"/\"}} {all}\n"
        );
        Reading { at, view, metrics: Exposition::read(&metrics) }
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let start = Instant::now();
        let before = reading(start, 10.0, 5_000, 6_000);
        let now = reading(start + Duration::from_secs(2), 12.0, 5_400, 6_400);
        let replica = replica("a", Some(&before), Ok(&now));
        let lane = &replica.lanes[0];
        assert_eq!((lane.requests, lane.slow, lane.busy, lane.cpu), (200.0, 0.25, 0.5, Some(3)));
        assert_eq!(lane.p99, Some(Bound::AtMost(0.001)), "the slow ones came before");
        let view = View { replicas: vec![replica] };
        assert_eq!(view.p99(), Some(Bound::AtMost(0.001)));
        assert_eq!((view.lanes(Sort::Busy, "a").len(), view.lanes(Sort::Busy, "b").len()), (1, 0));
    }

    #[test]
    fn a_restart_begins_anew_and_a_lost_replica_says_why() {
        let start = Instant::now();
        let before = reading(start, 100.0, 5_000, 6_000);
        let now = reading(start + Duration::from_secs(1), 0.5, 10, 100);
        let restarted = replica("a", Some(&before), Ok(&now));
        assert_eq!(restarted.lanes[0].requests, 0.0);
        assert_eq!(restarted.lanes[0].p99, Some(Bound::Above(10.0)));
        let lost = replica("a", Some(&before), Err(&"no".to_owned()));
        assert_eq!((lost.error.as_deref(), lost.lanes.len()), (Some("no"), 0));
    }
}
