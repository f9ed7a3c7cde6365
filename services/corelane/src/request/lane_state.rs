//! Per-lane state shared by its requests and connections.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::base::clock::Millis;
use crate::base::phase::Phase;
use crate::base::settings::{Limits, Timeouts, Traces};
use crate::load::lane::{Lane, LaneGroup, LaneShared};
use crate::load::report::{LatestReport, LoadReports, Published};
use crate::message::forwarded::Trust;
use crate::message::problem::Problem;
use crate::metrics::LaneMetrics;
use crate::metrics::kind::KindIndex;
use crate::request::exchanges::Exchanges;
use crate::request::finished::Observers;
use crate::request::offload::Offload;
use crate::request::pace::Pace;
use crate::request::pending::Pending;
use crate::request::polls::Polls;
use crate::request::queue::Queue;
use crate::request::record::{RequestRecord, RequestRecords};
use crate::request::retry_budget::RetryBudget;
use crate::request::routes::{LaneRoutes, Routes};
use crate::request::send_batch::SendBatch;
use crate::request::streams::Streams;
use crate::request::unsent::LaneUnsent;

#[derive(Clone, Debug, Default)]
pub(crate) struct RequestSettings {
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// The replica's name in responses.
    pub(crate) replica: Option<HeaderValue>,
    pub(crate) load_reports: LoadReports,
    pub(crate) ids: bool,
    pub(crate) traces: Traces,
    pub(crate) client_addresses: bool,
    pub(crate) observers: Option<Observers>,
}

/// Request state that all lanes of a server share.
#[derive(Clone, Debug)]
pub(crate) struct RequestShared {
    pub(crate) routes: Arc<Routes>,
    pub(crate) load_report: Arc<Published>,
    pub(crate) secure: bool,
    pub(crate) trust: Arc<Trust>,
}

pub(crate) const REPLICA: &str = "corelane-replica";
pub(crate) const LANE: &str = "corelane-lane";

const REPLICA_NAME: HeaderName = HeaderName::from_static(REPLICA);
const LANE_NAME: HeaderName = HeaderName::from_static(LANE);

/// Lane state that its requests and connections use. The state stays on the lane's thread.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) index: usize,
    lane: Lane,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// The time limit of a request, in the unit that requests store.
    pub(crate) allowed: Millis,
    pub(crate) routes: Rc<LaneRoutes>,
    pub(crate) secure: bool,
    pub(crate) trust: Arc<Trust>,
    signature: Option<(HeaderValue, HeaderValue)>,
    signature_lines: Vec<u8>,
    load_reports: Option<LatestReport>,
    pub(crate) phase: Cell<Phase>,
    pub(crate) polls: Polls,
    pub(crate) queue: Rc<Queue>,
    pub(crate) pending: Pending,
    /// The slow lanes, if any.
    pub(crate) slow: Option<Rc<dyn Offload>>,
    retries: RetryBudget,
    pub(crate) sends: SendBatch,
    /// HTTP/2 streams waiting for their clients.
    pub(crate) streams: Rc<Streams>,
    pub(crate) unsent: Rc<LaneUnsent>,
    /// Whether the last sweep found the process above its limit of unsent bytes.
    pub(crate) is_crowded: Cell<bool>,
    pub(crate) send_pace: Pace,
    pub(crate) receive_pace: Pace,
    pub(crate) exchanges: Exchanges,
    /// Time of the last sweep, excluding periods in which a handler blocked the lane.
    pub(crate) clock: Cell<Instant>,
    /// Time between the last two sweeps, again excluding such periods.
    pub(crate) passed: Cell<Duration>,
    /// Set if ids, traces or observers are enabled.
    pub(crate) request_records: Option<RequestRecords>,
}

impl LaneState {
    pub(crate) fn new(
        lane: Lane,
        settings: &RequestSettings,
        shared: RequestShared,
        slow: Option<Rc<dyn Offload>>,
    ) -> Self {
        let RequestSettings { limits, timeouts, replica, load_reports, .. } = settings;
        let RequestShared { routes, load_report, secure, trust } = shared;
        let index = lane.index();
        let lane_routes = LaneRoutes::new(Arc::clone(&routes));
        LaneState {
            index,
            queue: Rc::new(Queue::new(lane.clone(), limits, timeouts.request, slow.clone())),
            pending: Pending::default(),
            slow,
            retries: RetryBudget::new(),
            sends: SendBatch::new(),
            streams: Rc::default(),
            unsent: LaneUnsent::new(lane.clone(), limits),
            is_crowded: Cell::new(false),
            send_pace: Pace::new(limits.send_rate, timeouts.slow),
            receive_pace: Pace::new(limits.receive_rate, timeouts.slow),
            exchanges: Exchanges::new(lane.clone()),
            clock: Cell::new(Instant::now()),
            passed: Cell::default(),
            request_records: RequestRecords::new(
                settings.ids,
                settings.traces,
                settings.client_addresses,
                settings.observers.as_ref().map(|observers| observers.of(&lane)),
                &lane,
                &routes,
            ),
            limits: limits.clone(),
            timeouts: timeouts.clone(),
            allowed: timeouts.request.into(),
            signature_lines: lines(index, replica.as_ref()),
            signature: replica.clone().map(|replica| (replica, HeaderValue::from(index))),
            load_reports: (*load_reports != LoadReports::Off)
                .then(|| LatestReport::new(load_report)),
            lane,
            routes: Rc::new(lane_routes),
            trust,
            secure,
            phase: Cell::new(Phase::Serving),
            polls: Polls::new(),
        }
    }

    pub(crate) fn end_request_record(
        &self,
        request_record: Box<RequestRecord>,
        write: Option<u64>,
    ) {
        if let Some(request_records) = &self.request_records {
            request_records.end(request_record, write);
        }
    }

    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        if let Some((replica, lane)) = &self.signature {
            headers.insert(REPLICA_NAME, replica.clone());
            headers.insert(LANE_NAME, lane.clone());
        }
    }

    /// Marks the response to a request that was not started, within the lane's [`RetryBudget`].
    pub(crate) fn not_started(&self, problem: Problem) -> Problem {
        self.retries.mark(problem, self.metrics().finished.get())
    }

    pub(crate) fn signature_lines(&self) -> &[u8] {
        &self.signature_lines
    }

    /// Adds the load report if a report is due on the connection. See [`LatestReport::sign`].
    pub(crate) fn report_load(&self, reported: &Cell<u32>, headers: &mut HeaderMap) {
        if let Some(reports) = &self.load_reports {
            reports.sign(reported, headers);
        }
    }

    pub(crate) fn group(&self) -> &Arc<LaneGroup> {
        &self.lane.lanes
    }

    pub(crate) fn shared(&self) -> &LaneShared {
        self.lane.shared()
    }

    pub(crate) fn metrics(&self) -> &LaneMetrics {
        &self.shared().metrics
    }

    pub(crate) fn route(&self, kind: KindIndex) -> &str {
        self.routes.name(kind.route())
    }
}

fn lines(index: usize, replica: Option<&HeaderValue>) -> Vec<u8> {
    let Some(replica) = replica else { return Vec::new() };
    let lane = format!("\r\n{LANE}: {index}\r\n");
    [REPLICA.as_bytes(), b": ", replica.as_bytes(), lane.as_bytes()].concat()
}
