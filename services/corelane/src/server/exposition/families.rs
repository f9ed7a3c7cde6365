//! Metric families of lanes, slow lanes and the server: names, meanings and sources.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::balance::inbox::Inbox;
use crate::load::lane::LaneShared;
use crate::load::table::Row;
use crate::metrics::{Family, LaneMetrics, Value, counter, gauge};
use crate::slow::counters::SlowCounters;

pub(super) type OfLane = (Family, fn(&LaneShared, Instant) -> Value);

pub(super) const OF_LANES: &[OfLane] = &[
    counter(
        "corelane_lane_busy_seconds",
        "Wall-clock time during which the lane's event loop was not waiting, plus the CPU time of \
         its slow lane",
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
        "1 while a handler has blocked the lane for longer than timeouts.stall, or its event loop \
         is blocked",
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
        "Time during which the slow lane's thread was runnable but another thread ran",
        |lane, _| lane.cpu.slow_wait().into(),
    ),
    counter(
        "corelane_slow_yielded_seconds",
        "Time during which the lane waited to give its slow lane a share of the CPU",
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
        "Requests in progress, from the request's header to the end of the response's body",
        |lane, _| lane.metrics.in_flight.get().into(),
    ),
    gauge(
        "corelane_replies_unsent_bytes",
        "Response bytes that the service has written and clients have not accepted yet",
        |lane, _| lane.metrics.unsent.get().into(),
    ),
    gauge(
        "corelane_requests_queued",
        "Requests waiting for a slot or for their turn",
        |lane, _| lane.metrics.queued.get().into(),
    ),
    gauge("corelane_connections_parked", "Open connections that are parked", |lane, _| {
        lane.metrics.parked().into()
    }),
    gauge(
        "corelane_connections_upgraded",
        "Open connections and HTTP/2 streams that were upgraded to another protocol, such as \
         WebSocket",
        |lane, _| lane.metrics.upgraded.get().into(),
    ),
    counter(
        "corelane_connection_parkings",
        "Times that a connection was parked after being idle for park_after",
        |lane, _| lane.metrics.parkings.get().into(),
    ),
    counter(
        "corelane_connections_lent",
        "Connections whose request another lane served because a handler was blocking this lane",
        |lane, _| lane.metrics.lent.get().into(),
    ),
    counter(
        "corelane_connection_arrivals",
        "Connections that arrived from another lane, or came back because that lane rejected them",
        |lane, _| lane.metrics.arrived.get().into(),
    ),
];

pub(super) type ByReason = (Family, fn(&LaneMetrics) -> Vec<(&'static str, u64)>);

/// One value per lane and reason, plus one value per reason for connections that the acceptor
/// rejected before they were assigned to a lane.
pub(super) const REFUSED: &[ByReason] = &[
    counter(
        "corelane_connections_refused",
        "Connections that were rejected or closed by the server, by reason",
        |metrics| metrics.refused().collect(),
    ),
    counter(
        "corelane_requests_refused",
        "Requests that the server answered in place of the handler, by reason",
        |metrics| metrics.refused_requests().collect(),
    ),
];

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
    "Connections in transit from one lane to another",
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

/// One value per slow lane, or 0 if there are no slow lanes.
pub(super) const OF_SLOW_LANES: &[OfSlowLane] = &[
    counter(
        "corelane_slow_requests",
        "Requests that the lane handed over to a slow lane",
        |slow| slow.handed_over.get().into(),
    ),
    gauge("corelane_slow_requests_waiting", "Requests waiting for the slow lane", |slow| {
        slow.waiting.load(Relaxed).into()
    }),
    gauge("corelane_slow_requests_running", "Requests running on the slow lane", |slow| {
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
    Family::gauge("corelane_ready", "1 once every lane is listening, until a drain starts");

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
    "Start time of the drain since the Unix epoch, or 0 before a drain",
);

pub(super) const SLOW_LANE_INFO: Family = Family::gauge(
    "corelane_slow_lane_info",
    "Priority of the slow lane's thread: idle, nice, or normal if it cannot be lowered. Always 1; \
     absent without slow lanes",
);
pub(super) const LANE_INFO: Family =
    Family::gauge("corelane_lane_info", "CPU of each lane, and whether it is pinned; always 1");

pub(super) type OfInbox = (Family, fn(&Inbox, &LaneShared) -> Value);

/// One value per lane if there is an acceptor.
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
    gauge("corelane_connections_queued", "Connections waiting in the lane's inbox", |inbox, _| {
        inbox.length().into()
    }),
];

pub(super) const STALLS: Family = Family::counter(
    "corelane_stalls",
    "Times that a handler of the route blocked its lane for longer than timeouts.stall; route \
     none if something else blocked the event loop",
);

pub(super) const REQUESTS: Family =
    Family::counter("corelane_requests", "Finished requests by route template, method and code");

pub(super) const PHASES: Family = Family::histogram(
    "corelane_request_phase_seconds",
    "Request time by phase: accept lasts until the first request's header, queue until the \
     handler starts, handler until the response's head, and write until its last byte",
);
