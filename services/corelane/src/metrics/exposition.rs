//! Renders the shards as Prometheus text, on the admin thread.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::process;
use crate::shared::{Phase, Shared};

/// The media type of [`Exposition::render`]: the OpenMetrics text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that `/metrics` shows.
#[derive(Debug)]
pub(crate) struct Exposition {
    registry: Registry,
}

impl Exposition {
    pub(crate) fn new(shared: Arc<Shared>, version: &'static str) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(LaneCollector { shared, version }));
        registry.register_collector(Box::new(process::ProcessCollector));
        Exposition { registry }
    }

    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let mut out = String::with_capacity(16 * 1024);
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

#[derive(Debug)]
struct LaneCollector {
    shared: Arc<Shared>,
    version: &'static str,
}

/// One series of a family, with its labels.
fn series<'a, const N: usize>(
    family: &'a mut MetricEncoder<'_>,
    labels: &'a [(&'static str, &'a str); N],
    write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    write(family.encode_family(labels)?)
}

fn counter(mut encoder: MetricEncoder<'_>, value: u64) -> fmt::Result {
    encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn gauge(mut encoder: MetricEncoder<'_>, value: i64) -> fmt::Result {
    encoder.encode_gauge(&value)
}

impl Collector for LaneCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        self.state(&mut out)?;
        self.lanes(&mut out)?;
        self.connections(&mut out)?;
        self.requests(&mut out)
    }
}

impl LaneCollector {
    /// Index (as a label) and shared part of each lane.
    fn each(&self) -> impl Iterator<Item = (String, &crate::shared::LaneShared)> {
        self.shared.lanes.iter().enumerate().map(|(index, lane)| (index.to_string(), lane))
    }

    fn state(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Version of the library; always 1";
        let mut family =
            out.encode_descriptor("corelane_build_info", help, None, MetricType::Gauge)?;
        series(&mut family, &[("version", self.version)], |e| gauge(e, 1))?;

        let help = "1 when every lane listens and no drain has begun";
        let family = out.encode_descriptor("corelane_ready", help, None, MetricType::Gauge)?;
        gauge(family, self.shared.ready().into())?;

        let help = "Where the server is in its life: 1 for the present phase, 0 for the others";
        let mut family = out.encode_descriptor("corelane_phase", help, None, MetricType::Gauge)?;
        let now = self.shared.phase();
        for (phase, name) in Phase::ALL {
            series(&mut family, &[("phase", name)], |e| gauge(e, (phase == now).into()))?;
        }
        Ok(())
    }

    fn lanes(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let help = "The lanes: their CPU, and whether they are pinned to it; always 1";
        let mut family =
            out.encode_descriptor("corelane_lane_info", help, None, MetricType::Gauge)?;
        for (index, cpu) in self.shared.plan.lanes.iter().enumerate() {
            let (lane, pinned) = (index.to_string(), cpu.is_some().to_string());
            let cpu = cpu.map_or(String::new(), |cpu| cpu.to_string());
            let labels = [("lane", lane.as_str()), ("cpu", &cpu), ("pinned", &pinned)];
            series(&mut family, &labels, |e| gauge(e, 1))?;
        }

        let help = "Wall-clock time that the lane's event loop was not waiting";
        let name = "corelane_lane_busy_seconds";
        let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (lane, shared) in self.each() {
            let busy = shared
                .runtime
                .get()
                .map_or(0.0, |runtime| runtime.worker_total_busy_duration(0).as_secs_f64());
            series(&mut family, &[("lane", &lane)], |mut e| {
                e.encode_counter::<NoLabelSet, _, f64>(&busy, None)
            })?;
        }

        let help = "Handlers and reply bodies that panicked";
        let mut family =
            out.encode_descriptor("corelane_panics", help, None, MetricType::Counter)?;
        for (lane, shared) in self.each() {
            series(&mut family, &[("lane", &lane)], |e| counter(e, shared.metrics.panics.get()))?;
        }
        Ok(())
    }

    fn connections(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Open connections";
        let mut family =
            out.encode_descriptor("corelane_connections", help, None, MetricType::Gauge)?;
        for (lane, shared) in self.each() {
            let open = shared.metrics.open.get().cast_signed();
            series(&mut family, &[("lane", &lane)], |e| gauge(e, open))?;
        }

        let help = "Connections that were accepted";
        let name = "corelane_connections_accepted";
        let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (lane, shared) in self.each() {
            series(&mut family, &[("lane", &lane)], |e| counter(e, shared.metrics.accepted.get()))?;
        }

        let help = "Connections that were refused or given up, by reason";
        let name = "corelane_connections_refused";
        let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (lane, shared) in self.each() {
            for (reason, n) in shared.metrics.refused() {
                let labels = [("lane", lane.as_str()), ("reason", reason)];
                series(&mut family, &labels, |e| counter(e, n))?;
            }
        }
        Ok(())
    }

    fn requests(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Requests between their header and the making of their reply";
        let name = "corelane_requests_in_flight";
        let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (lane, shared) in self.each() {
            let n = shared.metrics.in_flight.get().cast_signed();
            series(&mut family, &[("lane", &lane)], |e| gauge(e, n))?;
        }

        let routes = self.shared.routes.names();
        let help = "Finished requests by route template, method and status code";
        let mut family =
            out.encode_descriptor("corelane_requests", help, None, MetricType::Counter)?;
        for (lane, shared) in self.each() {
            for (route, method, code, n) in shared.metrics.requests() {
                let labels = [
                    ("lane", lane.as_str()),
                    ("route", &routes[route]),
                    ("method", method),
                    ("code", &code),
                ];
                series(&mut family, &labels, |e| counter(e, n))?;
            }
        }

        let help =
            "From the request's header until its reply is made, not until the client has read it";
        let name = "corelane_request_duration_seconds";
        let mut family = out.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (lane, shared) in self.each() {
            for (route, histogram) in shared.metrics.durations() {
                let (sum, count, buckets) = histogram.read();
                series(&mut family, &[("lane", &lane), ("route", &routes[route])], |mut e| {
                    e.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
                })?;
            }
        }
        Ok(())
    }
}
