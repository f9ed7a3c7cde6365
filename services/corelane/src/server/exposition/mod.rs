//! Renders the shards as OpenMetrics text, on the admin thread.
//!
//! Rendering takes no locks and no lane time: counters are read while lanes write them. Its cost
//! depends on the number of lanes and routes, not of connections or requests.

pub(crate) mod classic;
mod config;
mod durations;
mod process;
pub(crate) mod registry;
mod tls;

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use crate::balance::inbox::Inbox;
use crate::base::phase::Phase;
use crate::load::activity::NO_ROUTE;
use crate::load::lane::LaneShared;
use crate::load::table::{LoadTable, Row};
use crate::metrics::kind::METHODS;
use crate::metrics::{CODES, Family, LaneMetrics, PlanOutcome, Value, counter, gauge};
use crate::server::exposition::registry::Registered;
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::slow::counters::SlowCounters;

/// The media type of [`Exposition::render`]: the OpenMetrics text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type OfLane = (Family, fn(&LaneShared, Instant) -> Value);

/// Families with one value for each lane.
const OF_LANES: &[OfLane] = &[
    counter(
        "corelane_lane_busy_seconds",
        "Wall-clock time for which the lane's event loop was not waiting, and CPU time of its \
             slow lane",
        |lane, _| lane.busy().into(),
    ),
    counter(
        "corelane_lane_cpu_seconds",
        "CPU time of the lane's thread, including polling, sleeping and waking up, which the \
             busy time excludes",
        |lane, _| lane.cpu.time().into(),
    ),
    counter(
        "corelane_lane_sleeps",
        "Times that the lane's event loop had no work and waited for its sockets",
        |lane, _| lane.sleeps().into(),
    ),
    gauge(
        "corelane_lane_expected_seconds",
        "Expected time for the lane's queued and running requests, from the load table",
        |lane, now| lane.expected_work(now).into(),
    ),
    gauge(
        "corelane_lane_stalled",
        "1 while a handler holds the lane for longer than the timeout stall, or its event \
             loop does not turn",
        |lane, _| lane.stalls.is_stalled().into(),
    ),
    counter(
        "corelane_lane_repins",
        "Times that the lane was pinned again because its CPUs changed",
        |lane, _| lane.cpu.repins().into(),
    ),
    counter("corelane_slow_cpu_seconds", "CPU time of the slow lane's thread", |lane, _| {
        lane.cpu.slow_time().into()
    }),
    counter(
        "corelane_slow_run_queue_seconds",
        "Time for which the slow lane's thread could run and another thread ran instead",
        |lane, _| lane.cpu.slow_wait().into(),
    ),
    counter(
        "corelane_slow_yielded_seconds",
        "Time for which the lane waited so that its slow lane got its share of the CPU",
        |lane, _| lane.yielded().into(),
    ),
    counter("corelane_panics", "Handlers and response bodies that panicked", |lane, _| {
        lane.metrics.panics.get().into()
    }),
    gauge("corelane_connections", "Open connections, including parked ones", |lane, _| {
        lane.metrics.open.get().into()
    }),
    counter("corelane_connections_accepted", "Accepted connections", |lane, _| {
        lane.metrics.accepted.get().into()
    }),
    gauge(
        "corelane_requests_in_flight",
        "Requests from their header to the end of their response's body",
        |lane, _| lane.metrics.in_flight.get().into(),
    ),
    gauge(
        "corelane_replies_unsent_bytes",
        "Bytes of responses that the service handed over and the clients have not accepted",
        |lane, _| lane.metrics.unsent.get().into(),
    ),
    gauge("corelane_requests_queued", "Requests that wait for a slot or their turn", |lane, _| {
        lane.metrics.queued.get().into()
    }),
    gauge("corelane_connections_parked", "Open connections that are parked", |lane, _| {
        lane.metrics.parked().into()
    }),
    gauge(
        "corelane_connections_upgraded",
        "Open connections and HTTP/2 streams that another protocol, such as WebSocket, uses",
        |lane, _| lane.metrics.upgraded.get().into(),
    ),
    counter(
        "corelane_connection_parkings",
        "Times that a connection was parked after it was idle for park_after",
        |lane, _| lane.metrics.parkings.get().into(),
    ),
    counter(
        "corelane_connections_lent",
        "Connections with a request that another lane served while a handler held this one",
        |lane, _| lane.metrics.lent.get().into(),
    ),
    counter(
        "corelane_connection_arrivals",
        "Connections that arrived from another lane, or returned because it did not accept \
             them",
        |lane, _| lane.metrics.arrived.get().into(),
    ),
];

type ByReason = (Family, fn(&LaneMetrics) -> Vec<(&'static str, u64)>);

/// Families with one value for each lane and reason, and for what the acceptor rejected before there was a lane.
const REFUSED: &[ByReason] = &[
    counter(
        "corelane_connections_refused",
        "Connections that were rejected or closed by the server, by reason",
        |metrics| metrics.refused().collect(),
    ),
    counter(
        "corelane_requests_refused",
        "Requests that were answered instead of their handler, by reason",
        |metrics| metrics.refused_requests().collect(),
    ),
];

/// Families with one value for each lane and reason.
const MOVED: &[ByReason] = &[
    counter(
        "corelane_connection_wakes",
        "Parked connections that were woken or closed, by reason",
        |metrics| metrics.woken().collect(),
    ),
    counter(
        "corelane_connection_moves",
        "Connections that left for another lane, by reason",
        |metrics| metrics.moved().collect(),
    ),
];

const IN_TRANSIT: Family = Family::gauge(
    "corelane_connections_in_transit",
    "Connections that have left a lane and not arrived at another",
);

const PLANS: Family = Family::counter(
    "corelane_moving_plans",
    "Plans to move active connections from a busy lane to another, by result",
);

type OfRow = (Family, fn(&Row) -> Value);

/// Families with one value for each row of the load table, merged over lanes.
const OF_LOAD_TABLE: &[OfRow] = &[
    counter("corelane_load_table_observations", "Requests observed by the load table", |row| {
        row.observations.into()
    }),
    gauge(
        "corelane_load_table_lane_seconds",
        "Mean lane time of a request, exponentially weighted",
        |row| row.lane.0.into(),
    ),
    gauge("corelane_load_table_slow", "1 if a lane serves the kind on its slow lane", |row| {
        (row.slow_on > 0).into()
    }),
    gauge(
        "corelane_load_table_lane_deviation_seconds",
        "Mean deviation of the lane time of a request",
        |row| row.lane.1.into(),
    ),
    gauge(
        "corelane_load_table_service_seconds",
        "Mean time from the start of a handler to the head of its response, exponentially \
             weighted",
        |row| row.service.0.into(),
    ),
    gauge(
        "corelane_load_table_service_deviation_seconds",
        "Mean deviation of the time from the start of a handler to the head of its response",
        |row| row.service.1.into(),
    ),
    counter("corelane_load_table_lane_time_seconds", "Total lane time of requests", |row| {
        row.lane_sums.seconds.into()
    }),
    counter(
        "corelane_load_table_lane_time_squared_seconds",
        "Sum of the squared lane times of requests, in seconds squared",
        |row| row.lane_sums.squared_seconds.into(),
    ),
    counter(
        "corelane_load_table_service_time_seconds",
        "Total time from the start of handlers to the head of their responses",
        |row| row.service_sums.seconds.into(),
    ),
    counter(
        "corelane_load_table_service_time_squared_seconds",
        "Sum of the squared times from the start of a handler to the head of its response, in \
             seconds squared",
        |row| row.service_sums.squared_seconds.into(),
    ),
];

type OfSlowLane = (Family, fn(&SlowCounters) -> Value);

/// Families with one value for each slow lane; 0 if there are none.
const OF_SLOW_LANES: &[OfSlowLane] = &[
    counter(
        "corelane_slow_requests",
        "Requests that the lane handed over to a slow lane",
        |slow| slow.handed_over.get().into(),
    ),
    gauge("corelane_slow_requests_waiting", "Requests that wait for the slow lane", |slow| {
        slow.waiting.load(Relaxed).into()
    }),
    gauge("corelane_slow_requests_running", "Requests that run on the slow lane", |slow| {
        slow.running.load(Relaxed).into()
    }),
    counter(
        "corelane_slow_requests_stolen",
        "Requests of other lanes that the slow lane took over",
        |slow| slow.stolen.get().into(),
    ),
];

const BUILD_INFO: Family = Family::gauge("corelane_build_info", "Version of the library; always 1");

const READY: Family =
    Family::gauge("corelane_ready", "1 if every lane listens and no drain has started");

const DEPENDENCY_UP: Family = Family::gauge(
    "corelane_dependency_up",
    "1 while the dependency, such as a database, is usable",
);

const PHASE: Family = Family::gauge(
    "corelane_phase",
    "Phase of the server: 1 for the current phase, 0 for the others",
);

const DRAIN_STARTED: Family = Family::gauge(
    "corelane_drain_started_timestamp_seconds",
    "Start of the drain since the Unix epoch; 0 before",
);

const SLOW_LANE_INFO: Family = Family::gauge(
    "corelane_slow_lane_info",
    "How the priority of the slow lane's thread is lowered: idle, nice, or normal if it cannot be; \
     always 1. Missing without slow lanes",
);
const LANE_INFO: Family =
    Family::gauge("corelane_lane_info", "CPU of each lane, and whether it is pinned; always 1");

type OfInbox = (Family, fn(&Inbox, &LaneShared) -> Value);

/// Families with one value for each lane, if there is an acceptor.
const OF_INBOXES: &[OfInbox] = &[
    counter(
        "corelane_connections_placed",
        "Connections that the acceptor assigned to the lane",
        |inbox, _| inbox.placed().into(),
    ),
    counter(
        "corelane_connections_stolen",
        "Connections that the lane stole from the inbox of a busy lane",
        |_, lane| lane.metrics.stolen.get().into(),
    ),
    gauge(
        "corelane_connections_queued",
        "Connections that wait in the lane's inbox",
        |inbox, _| inbox.length().into(),
    ),
];

const STALLS: Family = Family::counter(
    "corelane_stalls",
    "Times that a handler of the route held its lane for longer than the timeout stall; route \
     none if the event loop did not turn for another reason",
);

const REQUESTS: Family =
    Family::counter("corelane_requests", "Finished requests by route template, method and code");

const PHASES: Family = Family::histogram(
    "corelane_request_phase_seconds",
    "Time of a request by phase. Accept ends with the header of a connection's first request, \
     queue with the start of the handler, handler with the head of the response, write with the last \
     byte",
);

/// The data of `/metrics`.
#[derive(Debug)]
pub(crate) struct Exposition {
    registry: Registry,
    shared: Arc<Shared>,
    registered: Vec<Registered>,
    /// Length of the last output, as an estimate for the next.
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

/// A collector of the service.
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
    /// Index of each lane, as a label.
    lanes: Vec<String>,
    /// Codes with their own label, then the label for others.
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

    /// Index (as a label) and shared part of each lane.
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
            // Includes those without requests, because a rate needs the 0 before the first.
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
