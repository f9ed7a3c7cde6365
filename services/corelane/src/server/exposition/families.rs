//! The metric families of lanes, slow lanes and the server: their names, meanings and sources.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::balance::inbox::Inbox;
use crate::load::lane::LaneShared;
use crate::load::table::Row;
use crate::metrics::{Family, LaneMetrics, Value, counter, gauge};
use crate::slow::counters::SlowCounters;

pub(super) type OfLane = (Family, fn(&LaneShared, Instant) -> Value);

/// Families with one value for each lane.
pub(super) const OF_LANES: &[OfLane] = &[
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

pub(super) type ByReason = (Family, fn(&LaneMetrics) -> Vec<(&'static str, u64)>);

/// Families with one value for each lane and reason. One more value per reason counts connections
/// that the acceptor rejected before they had a lane.
pub(super) const REFUSED: &[ByReason] = &[
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
pub(super) const MOVED: &[ByReason] = &[
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

pub(super) const IN_TRANSIT: Family = Family::gauge(
    "corelane_connections_in_transit",
    "Connections that have left a lane and not arrived at another",
);

pub(super) const PLANS: Family = Family::counter(
    "corelane_moving_plans",
    "Plans to move active connections from a busy lane to another, by result",
);

pub(super) type OfRow = (Family, fn(&Row) -> Value);

/// Families with one value for each row of the load table, merged across lanes.
pub(super) const OF_LOAD_TABLE: &[OfRow] = &[
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

pub(super) type OfSlowLane = (Family, fn(&SlowCounters) -> Value);

/// Families with one value for each slow lane; 0 if there are none.
pub(super) const OF_SLOW_LANES: &[OfSlowLane] = &[
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

pub(super) const BUILD_INFO: Family =
    Family::gauge("corelane_build_info", "Version of the library; always 1");

pub(super) const READY: Family =
    Family::gauge("corelane_ready", "1 if every lane listens and no drain has started");

pub(super) const DEPENDENCY_UP: Family = Family::gauge(
    "corelane_dependency_up",
    "1 while the dependency, such as a database, is usable",
);

pub(super) const PHASE: Family = Family::gauge(
    "corelane_phase",
    "Phase of the server: 1 for the current phase, 0 for the others",
);

pub(super) const DRAIN_STARTED: Family = Family::gauge(
    "corelane_drain_started_timestamp_seconds",
    "Start of the drain since the Unix epoch; 0 before",
);

pub(super) const SLOW_LANE_INFO: Family = Family::gauge(
    "corelane_slow_lane_info",
    "How the priority of the slow lane's thread is lowered: idle, nice, or normal if it cannot be; \
     always 1. Missing without slow lanes",
);
pub(super) const LANE_INFO: Family =
    Family::gauge("corelane_lane_info", "CPU of each lane, and whether it is pinned; always 1");

pub(super) type OfInbox = (Family, fn(&Inbox, &LaneShared) -> Value);

/// Families with one value for each lane, if there is an acceptor.
pub(super) const OF_INBOXES: &[OfInbox] = &[
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

pub(super) const STALLS: Family = Family::counter(
    "corelane_stalls",
    "Times that a handler of the route held its lane for longer than the timeout stall; route \
     none if the event loop did not turn for another reason",
);

pub(super) const REQUESTS: Family =
    Family::counter("corelane_requests", "Finished requests by route template, method and code");

pub(super) const PHASES: Family = Family::histogram(
    "corelane_request_phase_seconds",
    "Time of a request by phase. Accept ends with the header of a connection's first request, \
     queue with the start of the handler, handler with the head of the response, write with the last \
     byte",
);
