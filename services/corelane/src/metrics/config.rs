//! What the server was told: its settings, as series that rules can compare with.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Value};
use crate::builder::Builder;

const INFO: Family = Family::gauge("corelane_config_info", "Settings that are words; always 1");

type OfSettings = (Family, fn(&Builder) -> Value);

/// Settings that are numbers.
const NUMBERS: &[OfSettings] = &[
    (
        Family::gauge("corelane_config_backlog", "Length of the accept queue of each listener"),
        |settings| u64::from(settings.backlog).into(),
    ),
    (
        Family::gauge("corelane_config_connections", "Most open connections over all lanes"),
        |settings| settings.limits.connections.into(),
    ),
    (
        Family::gauge(
            "corelane_config_connection_requests",
            "Most requests of a connection; +Inf for any number",
        ),
        |settings| {
            let limit = settings.limits.connection_requests;
            limit.map_or(Value::Real(f64::INFINITY), Value::Whole)
        },
    ),
    (
        Family::gauge("corelane_config_slots", "Most requests that run on a lane at a time"),
        |settings| settings.limits.slots.into(),
    ),
    (
        Family::gauge("corelane_config_queue", "Most requests that wait for a slot of a lane"),
        |settings| settings.limits.queue.into(),
    ),
    (
        Family::gauge(
            "corelane_config_blocking_threads",
            "Most threads of a lane for code that blocks",
        ),
        |settings| settings.limits.blocking_threads.into(),
    ),
    (
        Family::gauge(
            "corelane_config_blocking_queue",
            "Most blocking calls of a lane that wait for a thread",
        ),
        |settings| settings.limits.blocking_queue.into(),
    ),
    (Family::gauge("corelane_config_headers", "Most header fields of a request"), |settings| {
        settings.limits.headers.into()
    }),
    (
        Family::gauge("corelane_config_header_bytes", "Largest header section of a request"),
        |settings| settings.limits.header_bytes.into(),
    ),
    (
        Family::gauge("corelane_config_uri_bytes", "Longest path and query of a request"),
        |settings| settings.limits.uri_bytes.into(),
    ),
    (Family::gauge("corelane_config_body_bytes", "Largest body of a request"), |settings| {
        settings.limits.body_bytes.into()
    }),
    (
        Family::gauge(
            "corelane_config_park_after_seconds",
            "How long a connection is idle before it is parked; +Inf for ever",
        ),
        |settings| settings.park_after.map_or(Value::Real(f64::INFINITY), Value::from),
    ),
    (
        Family::gauge(
            "corelane_config_drain_settle_seconds",
            "How long a drain goes on accepting while readiness fails",
        ),
        |settings| settings.drain.settle.into(),
    ),
    (
        Family::gauge(
            "corelane_config_drain_deadline_seconds",
            "Longest time from the start of a drain to its end",
        ),
        |settings| settings.drain.deadline.into(),
    ),
];

const TIMEOUTS: Family = Family::gauge(
    "corelane_config_timeout_seconds",
    "The time-outs, by their name; one that is not set is left out",
);

#[derive(Debug)]
pub(super) struct ConfigCollector {
    settings: Builder,
}

impl ConfigCollector {
    pub(super) fn new(settings: Builder) -> Self {
        ConfigCollector { settings }
    }
}

impl Collector for ConfigCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let settings = &self.settings;
        let words = [
            ("placement", settings.placement.to_string()),
            ("lanes", settings.lanes.to_string()),
            ("pin", settings.pin.to_string()),
            ("moving", settings.moving.to_string()),
            ("load_reports", settings.load_reports.to_string()),
        ];
        let labels = words.each_ref().map(|(name, word)| (*name, word.as_str()));
        INFO.begin(&mut out)?.add(&labels, true)?;
        for (family, read) in NUMBERS {
            family.single(&mut out, read(settings))?;
        }
        let mut series = TIMEOUTS.begin(&mut out)?;
        for (name, timeout) in settings.timeouts.named() {
            if let Some(timeout) = timeout {
                series.add(&[("timeout", name)], timeout)?;
            }
        }
        Ok(())
    }
}
