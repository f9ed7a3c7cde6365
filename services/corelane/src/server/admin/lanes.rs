//! The data behind `/lanes`: the current state of every lane. `docs/admin.md` describes each field.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::load::busy::{BusyShare, BusyShares};
use crate::load::lane::LaneShared;
use crate::load::table::{LoadTable, Row};
use crate::metrics::RequestRefusal;
use crate::metrics::kind::METHODS;
use crate::server::settings::Settings;
use crate::server::shared::Shared;
use crate::slow::counters::SlowCounters;

const TOP: usize = 10;

const COSTS: usize = 30;

#[derive(Debug, Serialize)]
pub(super) struct ServerView {
    pub(super) version: &'static str,
    pub(super) phase: &'static str,
    pub(super) ready: bool,
    pub(super) uptime_seconds: f64,
    pub(super) placement: String,
    pub(super) moving: String,
    pub(super) park_after_ms: Option<f64>,
    pub(super) limits: LimitsView,
    pub(super) timeouts_ms: TimeoutsView,
    pub(super) busy_window_ms: f64,
    pub(super) connections_in_transit: u64,
    pub(super) lanes: Vec<LaneView>,
    #[serde(skip)]
    pub(super) costs: Vec<CostView>,
}

#[derive(Debug, Serialize)]
pub(super) struct LimitsView {
    pub(super) connections: usize,
    pub(super) connections_per_address: Option<usize>,
    pub(super) connection_requests: Option<u64>,
    pub(super) slots: usize,
    pub(super) queue: usize,
    pub(super) blocking_threads: usize,
    pub(super) blocking_queue: usize,
    pub(super) headers: usize,
    pub(super) header_bytes: usize,
    pub(super) uri_bytes: usize,
    pub(super) body_bytes: u64,
    pub(super) unsent_bytes: u64,
    pub(super) unsent_connection_bytes: usize,
    pub(super) send_rate: Option<u64>,
    pub(super) receive_rate: Option<u64>,
}

#[derive(Debug)]
pub(super) struct TimeoutsView(pub(super) Vec<(&'static str, Option<f64>)>);

impl Serialize for TimeoutsView {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

#[derive(Debug, Serialize)]
pub(super) struct LaneView {
    pub(super) lane: usize,
    pub(super) cpu: Option<usize>,
    pub(super) pinned: bool,
    pub(super) busy: f64,
    #[serde(skip)]
    pub(super) slow_busy: f64,
    pub(super) stalled: bool,
    pub(super) polling: Option<Polling>,
    pub(super) connections: u64,
    pub(super) connections_parked: u64,
    /// Connections in the lane's inbox, or `None` without an acceptor.
    pub(super) connections_queued: Option<usize>,
    pub(super) in_flight: u64,
    pub(super) upgraded: u64,
    pub(super) queued: u64,
    pub(super) expected_work_ms: f64,
    /// `None` without slow lanes.
    pub(super) slow: Option<SlowView>,
    pub(super) totals: Totals,
    pub(super) routes: Vec<RouteView>,
}

#[derive(Debug, Serialize)]
pub(super) struct SlowView {
    pub(super) priority: &'static str,
    pub(super) waiting: u64,
    pub(super) running: u64,
    pub(super) expected_work_ms: f64,
    pub(super) requests: u64,
    pub(super) stolen: u64,
    pub(super) cpu_seconds: f64,
    pub(super) yielded_seconds: f64,
}

impl SlowView {
    fn take(lane: &LaneShared, slow: &SlowCounters) -> SlowView {
        SlowView {
            priority: slow.priority(),
            waiting: slow.waiting.load(Relaxed),
            running: slow.running.load(Relaxed),
            expected_work_ms: millis(Duration::from_nanos(slow.expected.load(Relaxed))),
            requests: slow.handed_over.get(),
            stolen: slow.stolen.get(),
            cpu_seconds: lane.cpu.slow_time().as_secs_f64(),
            yielded_seconds: lane.yielded().as_secs_f64(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Polling {
    pub(super) route: String,
    pub(super) method: &'static str,
    pub(super) for_ms: f64,
}

/// Counters since startup.
#[derive(Debug, Serialize)]
pub(super) struct Totals {
    pub(super) accepted: u64,
    pub(super) stolen: u64,
    pub(super) parkings: u64,
    pub(super) departed: u64,
    pub(super) arrived: u64,
    pub(super) requests: u64,
    pub(super) shed: u64,
    pub(super) stalls: u64,
    pub(super) panics: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct RouteView {
    pub(super) route: String,
    pub(super) method: &'static str,
    pub(super) slow: bool,
    pub(super) observations: u64,
    pub(super) share: f64,
    pub(super) lane_ms: Spread,
    pub(super) service_ms: Spread,
}

#[derive(Debug)]
pub(super) struct CostView {
    pub(super) row: RouteView,
    /// Number of lanes that serve the kind on their slow lane.
    pub(super) slow_on: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl ServerView {
    pub(super) fn take(
        shared: &Shared,
        settings: &Settings,
        busy: &BusyShares,
        started: Instant,
        now: Instant,
    ) -> ServerView {
        let (window, shares) = busy.read(&shared.lanes, now);
        let limits = settings.limits();
        let timeouts = settings.timeouts().named().into_iter();
        let lanes = shares.into_iter().enumerate();
        ServerView {
            version: env!("CARGO_PKG_VERSION"),
            phase: shared.phase().name(),
            ready: shared.ready(),
            uptime_seconds: now.saturating_duration_since(started).as_secs_f64(),
            placement: settings.placement.to_string(),
            moving: settings.moving.to_string(),
            park_after_ms: settings.lane.park_after.map(millis),
            limits: LimitsView {
                connections: limits.connections,
                connections_per_address: limits.connections_per_address,
                connection_requests: limits.connection_requests,
                slots: limits.slots,
                queue: limits.queue,
                blocking_threads: limits.blocking_threads,
                blocking_queue: limits.blocking_queue,
                headers: limits.headers,
                header_bytes: limits.header_bytes,
                uri_bytes: limits.uri_bytes,
                body_bytes: limits.body_bytes,
                unsent_bytes: limits.unsent_bytes,
                unsent_connection_bytes: limits.unsent_connection_bytes,
                send_rate: limits.send_rate,
                receive_rate: limits.receive_rate,
            },
            timeouts_ms: TimeoutsView(
                timeouts.map(|(name, timeout)| (name, timeout.map(millis))).collect(),
            ),
            busy_window_ms: millis(window),
            connections_in_transit: shared.lanes.in_transit(),
            lanes: lanes.map(|(index, busy)| LaneView::take(shared, index, busy, now)).collect(),
            costs: costs(shared),
        }
    }
}

impl LaneView {
    fn take(shared: &Shared, index: usize, busy: BusyShare, now: Instant) -> LaneView {
        let (lane, cpu) = (&shared.lanes[index], shared.lanes[index].cpu.get());
        let route = |index: usize| shared.routes().name(index).to_owned();
        let (metrics, inboxes) = (&lane.metrics, shared.inboxes());
        LaneView {
            lane: index,
            cpu,
            pinned: cpu.is_some(),
            busy: rounded(busy.all),
            slow_busy: rounded(busy.slow),
            stalled: lane.stalls.is_stalled(),
            polling: lane.running.get(now).map(|(kind, since)| Polling {
                route: route(kind.route()),
                method: METHODS[kind.method()],
                for_ms: millis(since),
            }),
            connections: metrics.open.get(),
            connections_parked: metrics.parked(),
            connections_queued: inboxes.map(|inboxes| inboxes.lanes[index].length()),
            in_flight: metrics.in_flight.get(),
            upgraded: metrics.upgraded.get(),
            queued: metrics.queued.get(),
            expected_work_ms: millis(lane.expected_work(now)),
            slow: shared.slow(index).map(|slow| SlowView::take(lane, slow)),
            totals: Totals {
                accepted: metrics.accepted.get(),
                stolen: metrics.stolen.get(),
                parkings: metrics.parkings.get(),
                departed: metrics.departed(),
                arrived: metrics.arrived.get(),
                requests: metrics.finished(),
                shed: metrics.refused_for(RequestRefusal::QueueFull),
                stalls: lane.stalls.total(),
                panics: metrics.panics.get(),
            },
            routes: top(&lane.load_table, route),
        }
    }
}

/// The kinds of requests that have used the most of the lane's time.
fn top(table: &LoadTable, route: impl Fn(usize) -> String) -> Vec<RouteView> {
    let rows = LoadTable::merge([table].into_iter());
    views(&rows, route).take(TOP).map(|(_, view)| view).collect()
}

fn costs(shared: &Shared) -> Vec<CostView> {
    let rows = LoadTable::merge(shared.lanes.iter().map(|lane| &lane.load_table));
    let views = views(&rows, |index| shared.routes().name(index).to_owned());
    views.take(COSTS).map(|(row, view)| CostView { row: view, slow_on: row.slow_on }).collect()
}

/// Kinds of requests, sorted by total lane time in descending order.
fn views(rows: &[Row], route: impl Fn(usize) -> String) -> impl Iterator<Item = (&Row, RouteView)> {
    let held = |row: &Row| row.lane.0.as_secs_f64() * row.observations as f64;
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by(|a, b| held(b).total_cmp(&held(a)));
    let all: f64 = rows.iter().map(|row| held(row)).sum();
    rows.into_iter().map(move |row| {
        let view = RouteView {
            route: route(row.route),
            method: row.method,
            slow: row.slow_on > 0,
            observations: row.observations,
            share: rounded(held(row) / all.max(f64::MIN_POSITIVE)),
            lane_ms: Spread::new(row.lane),
            service_ms: Spread::new(row.service),
        };
        (row, view)
    })
}

impl Spread {
    fn new((mean, deviation): (Duration, Duration)) -> Self {
        Spread { mean: millis(mean), deviation: millis(deviation) }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

fn rounded(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::table::LongestPoll;
    use crate::metrics::kind::KindIndex;

    #[test]
    fn routes_are_listed_by_the_time_they_held_the_lane() {
        let table = LoadTable::new((20, 0), None);
        let short = LongestPoll { nanos: 0, is_cpu: false };
        for route in 0..20 {
            table.observe(KindIndex::new(route, 0), 1_000_000, 2_000_000, short);
        }
        (0..99).for_each(|_| table.observe(KindIndex::new(7, 0), 1_000_000, 2_000_000, short));
        table.observe(KindIndex::new(3, 2), 50_000_000, 50_000_000, short);
        let rows = top(&table, |route| format!("/{route}"));
        assert_eq!(rows.len(), TOP);
        let seen = |row: &RouteView| (row.route.clone(), row.method, row.observations, row.share);
        assert_eq!(seen(&rows[0]), ("/7".to_owned(), "GET", 100, 0.592));
        assert_eq!(seen(&rows[1]), ("/3".to_owned(), "POST", 1, 0.296));
        assert_eq!((rows[0].lane_ms.mean, rows[0].service_ms.mean), (1.0, 2.0));
        assert!(top(&LoadTable::new((1, 0), None), |_| String::new()).is_empty());
    }
}
