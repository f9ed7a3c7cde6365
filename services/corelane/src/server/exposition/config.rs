//! Server settings as series, so that rules can compare values with them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::metrics::{Family, Value, gauge};
use crate::server::settings::Settings;

const INFO: Family = Family::gauge("corelane_config_info", "Settings with text values; always 1");

type OfSettings = (Family, fn(&Settings) -> Value);

const NUMBERS: &[OfSettings] = &[
    gauge("corelane_config_backlog", "Length of each listener's accept queue", |settings| {
        u64::from(settings.backlog).into()
    }),
    gauge("corelane_config_connections", "Maximum open connections across all lanes", |settings| {
        settings.limits().connections.into()
    }),
    gauge(
        "corelane_config_connections_per_address",
        "Maximum open connections per client address; +Inf if unlimited",
        |settings| unless_unlimited(settings.limits().connections_per_address.map(|n| n as u64)),
    ),
    gauge(
        "corelane_config_connection_requests",
        "Maximum requests per connection; +Inf if unlimited",
        |settings| unless_unlimited(settings.limits().connection_requests),
    ),
    gauge("corelane_config_slots", "Maximum concurrent requests per lane", |settings| {
        settings.limits().slots.into()
    }),
    gauge("corelane_config_queue", "Maximum requests per lane that wait for a slot", |settings| {
        settings.limits().queue.into()
    }),
    gauge(
        "corelane_config_blocking_threads",
        "Maximum threads per lane for blocking calls",
        |settings| settings.limits().blocking_threads.into(),
    ),
    gauge(
        "corelane_config_blocking_queue",
        "Maximum blocking calls per lane that wait for a thread",
        |settings| settings.limits().blocking_queue.into(),
    ),
    gauge("corelane_config_headers", "Maximum header fields of a request", |settings| {
        settings.limits().headers.into()
    }),
    gauge(
        "corelane_config_header_bytes",
        "Maximum size of a request's header section",
        |settings| settings.limits().header_bytes.into(),
    ),
    gauge(
        "corelane_config_uri_bytes",
        "Maximum length of a request's path and query",
        |settings| settings.limits().uri_bytes.into(),
    ),
    gauge("corelane_config_body_bytes", "Maximum size of a request's body", |settings| {
        settings.limits().body_bytes.into()
    }),
    gauge(
        "corelane_config_unsent_bytes",
        "Unsent response bytes above which requests are rejected",
        |settings| settings.limits().unsent_bytes.into(),
    ),
    gauge(
        "corelane_config_unsent_connection_bytes",
        "Unsent response bytes of an HTTP/2 connection above which its responses pause",
        |settings| settings.limits().unsent_connection_bytes.into(),
    ),
    gauge(
        "corelane_config_send_rate_bytes",
        "Minimum bytes per second at which a client must read a response; 0 if there is no \
         minimum",
        |settings| settings.limits().send_rate.unwrap_or_default().into(),
    ),
    gauge(
        "corelane_config_receive_rate_bytes",
        "Minimum bytes per second at which a client must send a body; 0 if there is no minimum",
        |settings| settings.limits().receive_rate.unwrap_or_default().into(),
    ),
    gauge(
        "corelane_config_park_after_seconds",
        "Idle time after which a connection is parked; +Inf if never",
        |settings| settings.lane.park_after.map_or(Value::Real(f64::INFINITY), Value::from),
    ),
    gauge(
        "corelane_config_slow_lane_share",
        "Minimum share of a CPU for a slow lane while its lane is busy; 0 without slow lanes",
        |settings| settings.slow_lanes().map_or(0.0, |slow_lanes| slow_lanes.share).into(),
    ),
    gauge(
        "corelane_config_slow_lane_bound_seconds",
        "Handler time on a lane above which a route counts as expensive; +Inf without slow lanes",
        |settings| {
            let bound = settings.slow_lanes().map(|slow_lanes| slow_lanes.bound);
            bound.map_or(Value::Real(f64::INFINITY), Value::from)
        },
    ),
    gauge(
        "corelane_config_drain_settle_seconds",
        "Time during which a drain still accepts connections after readiness fails",
        |settings| settings.lane.drain.settle.into(),
    ),
    gauge(
        "corelane_config_drain_deadline_seconds",
        "Maximum time from the start of a drain to its end",
        |settings| settings.lane.drain.deadline.into(),
    ),
];

fn unless_unlimited(limit: Option<u64>) -> Value {
    limit.map_or(Value::Real(f64::INFINITY), Value::Whole)
}

const TIMEOUTS: Family =
    Family::gauge("corelane_config_timeout_seconds", "Timeouts by name; unset ones are omitted");

#[derive(Debug)]
pub(super) struct ConfigCollector {
    settings: Settings,
}

impl ConfigCollector {
    pub(super) fn new(settings: Settings) -> Self {
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
            ("load_reports", settings.lane.requests.load_reports.to_string()),
        ];
        let labels = words.each_ref().map(|(name, word)| (*name, word.as_str()));
        INFO.begin(&mut out)?.add(&labels, true)?;
        for (family, read) in NUMBERS {
            family.single(&mut out, read(settings))?;
        }
        let mut series = TIMEOUTS.begin(&mut out)?;
        for (name, timeout) in settings.timeouts().named() {
            if let Some(timeout) = timeout {
                series.add(&[("timeout", name)], timeout)?;
            }
        }
        Ok(())
    }
}
