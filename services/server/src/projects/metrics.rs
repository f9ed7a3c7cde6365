//! Metrics of the database, whether SQLite or PostgreSQL.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::store::StoreError;

const SECONDS: [f64; 14] =
    [2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 1.0, 5.0];

/// Bounds for group sizes: powers of two up to the largest group.
const SAVES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Database metrics for all lanes. An operation costs far more than its atomic updates.
#[derive(Debug)]
pub(crate) struct Metrics {
    operations: Family<Labels<2>, Counter>,
    durations: Family<Labels<1>, Histogram, fn() -> Histogram>,
    /// Seconds from requesting a connection until it is available or the wait ends.
    pub(crate) connection_wait: Histogram,
    pub(crate) open: Gauge,
    pub(crate) in_use: Gauge,
    pub(crate) queued: Gauge,
    commits: Family<Labels<1>, Counter>,
    commit_durations: Histogram,
    saves: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        Metrics {
            operations: Family::default(),
            durations: Family::new_with_constructor(seconds),
            connection_wait: seconds(),
            open: Gauge::default(),
            in_use: Gauge::default(),
            queued: Gauge::default(),
            commits: Family::default(),
            commit_durations: seconds(),
            saves: Histogram::new(SAVES),
        }
    }
}

impl Metrics {
    pub(crate) fn operation(
        &self,
        operation: &'static str,
        result: Result<&'static str, StoreError>,
        took: Duration,
    ) {
        let result = result.unwrap_or_else(StoreError::name);
        self.operations.get_or_create(&[("operation", operation), ("result", result)]).inc();
        self.durations.get_or_create(&[("operation", operation)]).observe(took.as_secs_f64());
    }

    pub(crate) fn commit(&self, done: bool, changes: usize, took: Duration) {
        let result = if done { "done" } else { "failed" };
        self.commits.get_or_create(&[("result", result)]).inc();
        self.commit_durations.observe(took.as_secs_f64());
        if done {
            self.saves.observe(changes as f64);
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = |name: &str, help: &str, metric: &dyn Encode| {
            metric.encode_as(&mut out, &format!("corelane_database_{name}"), help)
        };
        family("operations", "Database operations by result", &self.operations)?;
        family(
            "operation_duration_seconds",
            "Time of a database operation, including waits",
            &self.durations,
        )?;
        family(
            "connection_wait_seconds",
            "Time until an operation got a connection or gave up",
            &self.connection_wait,
        )?;
        family("connections", "Open connections to PostgreSQL", &self.open)?;
        family("connections_in_use", "Connections running an operation", &self.in_use)?;
        family("queue_length", "Operations waiting for the database", &self.queued)?;
        family("commits", "SQLite writer transactions", &self.commits)?;
        family(
            "commit_duration_seconds",
            "Duration of an SQLite writer transaction, including its wait for the lock",
            &self.commit_durations,
        )?;
        family("saves_per_commit", "Changes per transaction", &self.saves)
    }
}

trait Encode {
    fn encode_as(&self, out: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result;
}

impl<M: EncodeMetric> Encode for M {
    fn encode_as(&self, out: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> fmt::Result {
        self.encode(out.encode_descriptor(name, help, None, self.metric_type())?)
    }
}
