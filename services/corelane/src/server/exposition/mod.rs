//! Renders the lanes' counters as OpenMetrics text on the admin thread.
//!
//! Rendering takes no locks and no lane time, because it reads counters while lanes write them. The
//! cost depends on the number of lanes and routes, not on the number of connections or requests.

pub(crate) mod classic;
mod config;
mod durations;
mod families;
mod process;
pub(crate) mod registry;
mod tls;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use families::{
    BUILD_INFO, DEPENDENCY_UP, DRAIN_STARTED, IN_TRANSIT, LANE_INFO, MOVED, OF_INBOXES, OF_LANES,
    OF_LOAD_TABLE, OF_SLOW_LANES, PHASE, PHASES, PLANS, READY, REFUSED, REQUESTS, SLOW_LANE_INFO,
    STALLS,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::base::phase::Phase;
use crate::load::activity::NO_ROUTE;
use crate::load::lane::LaneShared;
use crate::load::table::LoadTable;
use crate::metrics::kind::METHODS;
use crate::metrics::{CODES, PlanOutcome};
use crate::server::exposition::registry::Registered;
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::slow::counters::SlowCounters;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
pub(crate) struct Exposition {
    registry: Registry,
    shared: Arc<Shared>,
    registered: Vec<Registered>,
    /// Length of the last output, as an estimate for the next output.
    length: Cell<usize>,
}

impl Exposition {
    pub(crate) fn new(shared: Arc<Shared>, settings: &Settings) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(tls::TlsCollector { shared: Arc::clone(&shared) }));
        registry
            .register_collector(Box::new(process::CpuCollector { shared: Arc::clone(&shared) }));
        registry.register_collector(Box::new(LaneCollector::new(Arc::clone(&shared))));
        registry.register_collector(Box::new(config::ConfigCollector::new(settings.clone())));
        registry.register_collector(Box::new(process::ProcessCollector));
        for collector in &settings.collectors {
            registry.register_collector(Box::new(OfService(Arc::clone(collector))));
        }
        let registered = settings.registries.clone();
        Exposition { registry, shared, registered, length: Cell::new(0) }
    }

    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let mut out = String::with_capacity(self.length.get() + 16 * 1024);
        text::encode_registry(&mut out, &self.registry)?;
        durations::append(&mut out, &self.shared)?;
        for registry in &self.registered {
            registry::append(&mut out, registry)?;
        }
        text::encode_eof(&mut out)?;
        self.length.set(out.len());
        Ok(out)
    }
}

#[derive(Debug)]
struct OfService(Arc<dyn Collector>);

impl Collector for OfService {
    fn encode(&self, out: DescriptorEncoder) -> fmt::Result {
        self.0.encode(out)
    }
}

#[derive(Debug)]
struct LaneCollector {
    shared: Arc<Shared>,
    lanes: Vec<String>,
    /// Status codes that have their own label, followed by the label for other codes.
    codes: Vec<String>,
}

impl Collector for LaneCollector {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        self.state(&mut out)?;
        self.lanes(&mut out)?;
        self.load_table(&mut out)?;
        self.requests(&mut out)
    }
}

impl LaneCollector {
    fn new(shared: Arc<Shared>) -> Self {
        let lanes = (0..shared.lanes.len()).map(|index| index.to_string()).collect();
        let codes = CODES.iter().map(u16::to_string).chain(["other".to_owned()]).collect();
        LaneCollector { shared, lanes, codes }
    }

    fn each(&self) -> impl Iterator<Item = (&str, &Arc<LaneShared>)> {
        self.lanes.iter().map(String::as_str).zip(self.shared.lanes.iter())
    }

    fn state(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        BUILD_INFO.begin(out)?.add(&[("version", env!("CARGO_PKG_VERSION"))], true)?;
        READY.single(out, self.shared.ready())?;
        let dependencies = self.shared.dependencies.each();
        if !dependencies.is_empty() {
            let mut series = DEPENDENCY_UP.begin(out)?;
            let mut each = dependencies.into_iter();
            each.try_for_each(|(name, up)| series.add(&[("dependency", name)], up))?;
        }
        let mut series = PHASE.begin(out)?;
        let now = self.shared.phase();
        Phase::ALL
            .iter()
            .try_for_each(|(phase, name)| series.add(&[("phase", name)], *phase == now))?;
        DRAIN_STARTED.single(out, self.shared.parts.lifecycle.drain_started())
    }

    fn lanes(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let mut series = LANE_INFO.begin(out)?;
        for (lane, shared) in self.each() {
            let cpu = shared.cpu.get();
            let pinned = cpu.is_some().to_string();
            let cpu = cpu.map_or(String::new(), |cpu| cpu.to_string());
            series.add(&[("lane", lane), ("cpu", &cpu), ("pinned", &pinned)], true)?;
        }
        self.slow_lanes(out)?;
        let now = Instant::now();
        for (family, read) in OF_LANES {
            let mut series = family.begin(out)?;
            self.each()
                .try_for_each(|(lane, shared)| series.add(&[("lane", lane)], read(shared, now)))?;
        }
        for (families, inboxes) in [(REFUSED, self.shared.inboxes()), (MOVED, None)] {
            for (family, read) in families {
                let mut series = family.begin(out)?;
                let acceptor = inboxes.map(|inboxes| ("acceptor", &inboxes.acceptor));
                let lanes = self.each().map(|(lane, shared)| (lane, &shared.metrics));
                for (lane, metrics) in lanes.chain(acceptor) {
                    for (reason, n) in read(metrics) {
                        series.add(&[("lane", lane), ("reason", reason)], n)?;
                    }
                }
            }
        }
        IN_TRANSIT.single(out, self.shared.lanes.in_transit())?;
        let mut series = PLANS.begin(out)?;
        PlanOutcome::ALL.iter().try_for_each(|&(plan, outcome)| {
            series.add(&[("outcome", outcome)], self.shared.plans.get(plan))
        })?;
        if let Some(inboxes) = self.shared.inboxes() {
            for (family, read) in OF_INBOXES {
                let mut series = family.begin(out)?;
                for ((lane, shared), inbox) in self.each().zip(&inboxes.lanes) {
                    series.add(&[("lane", lane)], read(inbox, shared))?;
                }
            }
        }
        let mut series = STALLS.begin(out)?;
        for (lane, shared) in self.each() {
            // Includes routes without requests, because a rate needs the 0 before the first
            // request.
            for (index, route) in self.shared.routes().names().enumerate() {
                series.add(&[("lane", lane), ("route", route)], shared.stalls.of(index))?;
            }
            series.add(&[("lane", lane), ("route", NO_ROUTE)], shared.stalls.without_route())?;
        }
        Ok(())
    }

    fn slow_lanes(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let none = SlowCounters::default();
        let of = |lane| self.shared.slow(lane).unwrap_or(&none);
        let each = || self.lanes.iter().enumerate().map(|(lane, name)| (name.as_str(), of(lane)));
        if self.shared.lanes.has_slow_lanes() {
            let mut series = SLOW_LANE_INFO.begin(out)?;
            each().try_for_each(|(lane, slow)| {
                series.add(&[("lane", lane), ("priority", slow.priority())], true)
            })?;
        }
        for (family, read) in OF_SLOW_LANES {
            let mut series = family.begin(out)?;
            each().try_for_each(|(lane, slow)| series.add(&[("lane", lane)], read(slow)))?;
        }
        Ok(())
    }

    fn load_table(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let rows = LoadTable::merge(self.shared.lanes.iter().map(|lane| &lane.load_table));
        for (family, read) in OF_LOAD_TABLE {
            let mut series = family.begin(out)?;
            for row in &rows {
                let route = self.shared.routes().name(row.route);
                series.add(&[("route", route), ("method", row.method)], read(row))?;
            }
        }
        Ok(())
    }

    fn requests(&self, out: &mut DescriptorEncoder) -> fmt::Result {
        let routes = self.shared.routes();
        let mut series = REQUESTS.begin(out)?;
        for (lane, shared) in self.each() {
            for (kind, code, n) in shared.metrics.requests() {
                let (route, method) = (routes.name(kind.route()), METHODS[kind.method()]);
                let code = &self.codes[code];
                series.add(
                    &[("lane", lane), ("route", route), ("method", method), ("code", code)],
                    n,
                )?;
            }
        }
        let mut series = PHASES.begin(out)?;
        for (lane, shared) in self.each() {
            for (phase, route, histogram) in shared.metrics.phases() {
                let labels = [("lane", lane), ("route", routes.name(route)), ("phase", phase)];
                series.add_histogram(&labels, histogram)?;
            }
        }
        Ok(())
    }
}
