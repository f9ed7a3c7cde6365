//! Metrics of called services. Each lane has its own counters, which a scrape sums.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use corelane::prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use corelane::prometheus_client::metrics::MetricType;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    ClientError,
    ServerError,
    Overloaded,
    Deadline,
    Unresolved,
    Unreachable,
    Failed,
    Cancelled,
}

impl Outcome {
    const ALL: [(Outcome, &'static str); 9] = [
        (Outcome::Ok, "ok"),
        (Outcome::ClientError, "client_error"),
        (Outcome::ServerError, "server_error"),
        (Outcome::Overloaded, "overloaded"),
        (Outcome::Deadline, "deadline"),
        (Outcome::Unresolved, "unresolved"),
        (Outcome::Unreachable, "unreachable"),
        (Outcome::Failed, "failed"),
        (Outcome::Cancelled, "cancelled"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Outcome::ALL[self as usize].1
    }
}

/// Upper bounds of the latency histogram in seconds.
const BOUNDS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A lane's counters, on their own pair of cache lines. Only that lane writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    outcomes: [AtomicU64; Outcome::ALL.len()],
    /// The last one counts what exceeds all bounds.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) denied: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) ejected: AtomicU64,
}

impl Counters {
    pub(crate) fn call(&self, outcome: Outcome, took: Duration) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS.iter().position(|&bound| seconds <= bound).unwrap_or(BOUNDS.len());
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.nanos.fetch_add(took.as_nanos() as u64, Relaxed);
    }
}

/// What the metrics of one service show.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    lanes: Mutex<Vec<Arc<Counters>>>,
    pub(crate) endpoints: AtomicU64,
    pub(crate) resolved: AtomicU64,
    pub(crate) unresolved: AtomicU64,
}

impl Totals {
    pub(crate) fn lane(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counters));
        counters
    }

    fn sum(&self, count: impl Fn(&Counters) -> u64) -> u64 {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| count(lane)).sum()
    }

    /// Bounds and counts of the latency histogram.
    fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.into_iter().chain([f64::MAX]);
        let count = |at: usize| self.sum(|lane| lane.buckets[at].load(Relaxed));
        bounds.enumerate().map(|(at, bound)| (bound, count(at))).collect()
    }
}

/// A service's name, its totals, and the retries that its budget allows.
pub(crate) struct Shown<'a> {
    pub(crate) name: &'a str,
    pub(crate) totals: &'a Totals,
    pub(crate) budget: u64,
}

/// A value of a family, and its label in addition to the callee.
type Value = (Option<(&'static str, &'static str)>, u64);

pub(crate) fn encode(out: &mut DescriptorEncoder<'_>, all: &[Shown<'_>]) -> fmt::Result {
    type Family = (&'static str, &'static str, MetricType, fn(&Shown<'_>) -> Vec<Value>);
    let families: [Family; 8] = [
        (
            "requests",
            "Calls by outcome; responses count by their status",
            MetricType::Counter,
            |it| {
                let count = |at: usize| it.totals.sum(|lane| lane.outcomes[at].load(Relaxed));
                let all = Outcome::ALL.iter().enumerate();
                all.map(|(at, (_, name))| (Some(("outcome", *name)), count(at))).collect()
            },
        ),
        ("retries", "Attempts after the first one of a call", MetricType::Counter, |it| {
            vec![(None, it.totals.sum(|lane| lane.retries.load(Relaxed)))]
        }),
        ("retries_denied", "Retries that the budget did not allow", MetricType::Counter, |it| {
            vec![(None, it.totals.sum(|lane| lane.denied.load(Relaxed)))]
        }),
        ("resolutions", "DNS queries for endpoints, by result", MetricType::Counter, |it| {
            let Totals { resolved, unresolved, .. } = it.totals;
            [("success", resolved), ("failure", unresolved)]
                .map(|(result, count)| (Some(("result", result)), count.load(Relaxed)))
                .to_vec()
        }),
        ("retry_budget", "Retries that the budget allows now", MetricType::Gauge, |it| {
            vec![(None, it.budget)]
        }),
        ("connections", "Open connections", MetricType::Gauge, |it| {
            vec![(None, it.totals.sum(|lane| lane.connections.load(Relaxed)))]
        }),
        ("endpoints", "Known endpoints", MetricType::Gauge, |it| {
            vec![(None, it.totals.endpoints.load(Relaxed))]
        }),
        (
            "endpoints_ejected",
            "Ejected endpoints, summed over the lanes",
            MetricType::Gauge,
            |it| vec![(None, it.totals.sum(|lane| lane.ejected.load(Relaxed)))],
        ),
    ];
    for (name, help, kind, values) in families {
        let name = format!("corelane_client_{name}");
        let mut family = out.encode_descriptor(&name, help, None, kind)?;
        for it in all {
            for (label, value) in values(it) {
                let labels = [Some(("callee", it.name)), label];
                let labels: Vec<_> = labels.into_iter().flatten().collect();
                let mut metric = family.encode_family(&labels)?;
                match kind {
                    MetricType::Gauge => metric.encode_gauge(&value)?,
                    _ => metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
                }
            }
        }
    }
    let text = "Time from the start of a call to its response's head, including retries";
    let name = "corelane_client_request_duration_seconds";
    let mut family = out.encode_descriptor(name, text, None, MetricType::Histogram)?;
    for it in all {
        let buckets = it.totals.buckets();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let seconds = it.totals.sum(|lane| lane.nanos.load(Relaxed)) as f64 / 1e9;
        let labels = [("callee", it.name)];
        let mut metric = family.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)?;
    }
    Ok(())
}
