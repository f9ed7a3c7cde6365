//! Load reports: response headers that tell the load balancer in front of this server how busy the
//! server is.
//!
//! The admin thread reads the lanes' counters ten times a second ([`sampler`]) and publishes one
//! header value, which lanes add to responses ([`publish`]).

mod sampler;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use sampler::{Reading, Report, Sampler};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::base::settings::words;
use crate::load::lane::LaneShared;

const EVERY: Duration = Duration::from_millis(100);

/// Whether responses carry load reports, and in which format.
///
/// A report is the ORCA response header `endpoint-load-metrics` (Open Request Cost Aggregation,
/// `xds.data.orca.v3.OrcaLoadReport`). Envoy's `client_side_weighted_round_robin` and gRPC's
/// `weighted_round_robin` compute weights from it: requests per second divided by utilization (gRFC
/// A58).
///
/// Enable it if many gateways share the replicas, or if replicas differ in capacity. A single
/// gateway that counts its own requests in flight (least request) balances better without it. The
/// gateway should strip the header, which is not meant for clients.
///
/// | key | value |
/// |---|---|
/// | `application_utilization` | share of wall-clock time in which lanes and slow lanes ran tasks. The value is the mean over the lanes and at least 0.02. A task that is waiting for its CPU counts as busy, so CPU contention is visible |
/// | `rps_fractional` | requests finished per second, whatever their status, always above 0 |
/// | `eps` | responses with a 5xx status per second |
/// | `named_metrics.expected_wait` | expected remaining lane time of queued and running requests in seconds, as the mean over the lanes |
/// | `named_metrics.in_flight` | requests in flight across all lanes |
///
/// The first three values are smoothed over one second: the weight of an old value falls to `1/e`
/// within a second. The named metrics are current values.
///
/// A new report appears every 100 ms, and each connection carries it once, in its next response.
/// Below 0.1 finished requests per second, the server does not send a report, because an idle
/// server cannot measure the cost of a request.
///
/// Envoy 1.40 ignores an entire report that contains an unknown key. Its
/// `error_utilization_penalty` defaults to 0, so `eps` has no effect. While all replicas are below
/// 2%, the weights follow the number of requests that each replica handled before.
///
/// ```
/// use corelane::{LoadReports, Server};
///
/// let _builder = Server::builder().load_reports(LoadReports::Text);
/// assert_eq!("json".parse(), Ok(LoadReports::Json));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadReports {
    /// No load reports and no sampling.
    #[default]
    Off,
    /// `TEXT application_utilization=0.2500,rps_fractional=1200.000,...`: the shorter format.
    Text,
    /// `JSON {"application_utilization":0.2500,...,"named_metrics":{"expected_wait":0.001000,...}}`
    Json,
}

words!(LoadReports: "off" => Off, "text" => Text, "json" => Json);

/// Samples the lanes and publishes reports until the server ends. Runs on the admin thread.
pub(crate) async fn run(
    lanes: &[Arc<LaneShared>],
    published: &Published,
    form: LoadReports,
) -> Infallible {
    let mut sampler = Sampler::new(lanes.len());
    let mut readings = Vec::with_capacity(lanes.len());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        ticks.tick().await;
        readings.clear();
        let now = Instant::now();
        readings.extend(lanes.iter().map(|lane| read(lane, now)));
        let report = sampler.sample(now - last, &readings);
        last = now;
        published.publish(report.and_then(|report| header_value(&report, form)));
    }
}

/// One lane's reports in TEXT and JSON. Samples are `(elapsed, busy, waits, finished, failed,
/// in_flight, expected)` with times in nanoseconds.
#[cfg(feature = "fuzzing")]
pub(crate) fn of_one_lane(samples: impl Iterator<Item = [u64; 7]>) -> Vec<[String; 2]> {
    let mut sampler = Sampler::new(1);
    let reports =
        samples.filter_map(|[elapsed, busy, waits, finished, failed, in_flight, left]| {
            let (busy, expected) = (Duration::from_nanos(busy), Duration::from_nanos(left));
            let slow = Duration::ZERO;
            let reading = Reading { busy, slow, waits, finished, failed, in_flight, expected };
            sampler.sample(Duration::from_nanos(elapsed), &[reading])
        });
    let text = |report: &sampler::Report, form| {
        let value = header_value(report, form).expect("a header value");
        value.to_str().expect("ASCII").to_owned()
    };
    let forms = [LoadReports::Text, LoadReports::Json];
    reports.map(|report| forms.map(|form| text(&report, form))).collect()
}

fn read(lane: &LaneShared, now: Instant) -> Reading {
    let (metrics, runtime) = (&lane.metrics, lane.runtime.get());
    Reading {
        busy: lane.loop_busy(),
        slow: lane.cpu.slow_time().saturating_sub(lane.yielded()),
        // A lane that has not started counts as waiting.
        waits: runtime.map_or(1, |runtime| runtime.worker_park_unpark_count(0)),
        finished: metrics.finished.get(),
        failed: metrics.failed.get(),
        in_flight: metrics.in_flight.get(),
        expected: lane.expected_work(now.into_std()),
    }
}

/// Header value of a report, or `None` if reports are off.
///
/// Keys are the fields of `xds.data.orca.v3.OrcaLoadReport`. Envoy drops a report with an unknown
/// key (source/common/orca/orca_parser.cc).
fn header_value(report: &Report, form: LoadReports) -> Option<HeaderValue> {
    let Report { utilization, rps, eps, expected_wait, in_flight } = report;
    let text = match form {
        LoadReports::Off => return None,
        LoadReports::Text => format!(
            "TEXT application_utilization={utilization:.4},rps_fractional={rps:.3},eps={eps:.3},\
             named_metrics.expected_wait={expected_wait:.6},named_metrics.in_flight={in_flight}"
        ),
        LoadReports::Json => format!(
            "JSON {{\"application_utilization\":{utilization:.4},\"rps_fractional\":{rps:.3},\
             \"eps\":{eps:.3},\"named_metrics\":{{\"expected_wait\":{expected_wait:.6},\
             \"in_flight\":{in_flight}}}}}"
        ),
    };
    HeaderValue::try_from(text).ok()
}

const NAME: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// The latest report, for all lanes. Lanes check this value for each response. Because it has its
/// own cache lines, the check misses the cache only after a change.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Published {
    generation: AtomicU32,
    /// `None` while there is no report.
    report: Mutex<Option<HeaderValue>>,
}

impl Published {
    fn publish(&self, report: Option<HeaderValue>) {
        let mut slot = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        if report.is_some() || slot.is_some() {
            *slot = report;
            self.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// A lane's copy of the latest report, refreshed only after a change.
#[derive(Debug)]
pub(crate) struct LatestReport {
    published: Arc<Published>,
    generation: Cell<u32>,
    copy: RefCell<Option<HeaderValue>>,
}

impl LatestReport {
    pub(crate) fn new(published: Arc<Published>) -> Self {
        LatestReport { published, generation: Cell::new(0), copy: RefCell::default() }
    }

    /// Adds the latest report to a response unless the connection has already carried that report.
    /// `reported` is the generation of the last report on the connection.
    pub(crate) fn sign(&self, reported: &Cell<u32>, headers: &mut HeaderMap) {
        if self.published.generation.load(Ordering::Acquire) != self.generation.get() {
            self.refresh();
        }
        let generation = self.generation.get();
        if reported.replace(generation) != generation
            && let Some(report) = &*self.copy.borrow()
        {
            headers.insert(NAME, report.clone());
        }
    }

    fn refresh(&self) {
        // Lanes do not wait for the lock, because it will be free again before the next response.
        let Ok(slot) = self.published.report.try_lock() else { return };
        // Copied because lanes must not share a reference count.
        let copy = slot.as_ref().and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        self.copy.replace(copy);
        self.generation.set(self.published.generation.load(Ordering::Acquire));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: Report = Report {
        utilization: 0.02,
        rps: 1234.5678,
        eps: 0.0,
        expected_wait: 0.00125,
        in_flight: 7,
    };

    #[test]
    fn both_forms_say_the_same() {
        let text = header_value(&REPORT, LoadReports::Text).expect("a value");
        assert_eq!(
            text,
            "TEXT application_utilization=0.0200,rps_fractional=1234.568,eps=0.000,\
             named_metrics.expected_wait=0.001250,named_metrics.in_flight=7"
        );
        let json = header_value(&REPORT, LoadReports::Json).expect("a value");
        let json = json.to_str().expect("ASCII").strip_prefix("JSON ").expect("the prefix");
        let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(
            json,
            serde_json::json!({
                "application_utilization": 0.02, "rps_fractional": 1234.568, "eps": 0.0,
                "named_metrics": {"expected_wait": 0.00125, "in_flight": 7},
            })
        );
        assert_eq!(header_value(&REPORT, LoadReports::Off), None);
    }
}
