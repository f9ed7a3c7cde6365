//! A lane: one thread, one event loop, its listener, its connections, its service.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use slab::Slab;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::blocking::{Pool, unpin_current_thread};
use crate::builder::Builder;
use crate::connection::{Connection, Order, Registration};
use crate::error::Error;
use crate::final_response::refuse;
use crate::http_connection::{LaneService, serve};
use crate::idle::{self, Attention, ParkingLot, RecentLoad, Shedding};
use crate::kind::KindIndex;
use crate::load_report::{LaneReports, LoadReports};
use crate::metrics::{LaneMetrics, Refusal};
use crate::pending::Pending;
use crate::phase::Phase;
use crate::placement::{self, Place, Source, accept_until_drained};
use crate::queue::{self, Queue};
use crate::random::Random;
use crate::request_record::{RequestRecord, RequestRecords};
use crate::service::HttpService;
use crate::settings::{Limits, Moving, Timeouts};
use crate::shared::{LaneShared, Left, Shared};
use crate::stream_task::Streams;
use crate::sweep;

/// The lane that a service is created for, passed to the closure of
/// [`Server::serve`](crate::Server::serve), once on each lane's own thread.
///
/// ```
/// use std::convert::Infallible;
///
/// use bytes::Bytes;
/// use corelane::{Incoming, Lane, Server};
/// use http::{Request, Response};
/// use http_body_util::Full;
///
/// fn name(lane: &Lane) -> String {
///     match lane.cpu() {
///         Some(cpu) => format!("lane {} on CPU {cpu}\n", lane.index()),
///         None => format!("lane {}, not pinned\n", lane.index()),
///     }
/// }
///
/// # fn main() -> Result<(), corelane::Error> {
/// let server = Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
/// # server.handle().stop();
/// server.serve(|lane| {
///     let lane = lane.clone();
///     tower::service_fn(move |_request: Request<Incoming>| {
///         let reply = Response::new(Full::<Bytes>::from(name(&lane)));
///         async move { Ok::<_, Infallible>(reply) }
///     })
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lane {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("index", &self.index).field("cpu", &self.cpu()).finish()
    }
}

impl Lane {
    /// Index of the lane, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn shared(&self) -> &LaneShared {
        &self.shared.lanes[self.index]
    }

    /// The CPU that the lane is currently pinned to; `None` when lanes are not pinned. It changes with
    /// the cpuset of the process.
    pub fn cpu(&self) -> Option<usize> {
        self.shared().cpu.get()
    }
}

pub(crate) const REPLICA: &str = "corelane-replica";
pub(crate) const LANE: &str = "corelane-lane";

const REPLICA_NAME: HeaderName = HeaderName::from_static(REPLICA);
const LANE_NAME: HeaderName = HeaderName::from_static(LANE);

/// The state of a lane, which stays on its thread.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) index: usize,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// Idle time after which a connection parks.
    pub(crate) park_after: Option<Duration>,
    /// Whether the fast path is enabled.
    pub(crate) plain_requests: bool,
    /// The reply headers that name the replica and this lane.
    signature: Option<(HeaderValue, HeaderValue)>,
    /// `signature` as header lines.
    signature_lines: Vec<u8>,
    load_reports: Option<LaneReports>,
    pub(crate) shared: Arc<Shared>,
    /// The server's phase, as seen by this lane.
    pub(crate) phase: Cell<Phase>,
    /// Connections with a task. Parked connections are in the parking lot.
    pub(crate) connections: RefCell<Slab<Rc<Connection>>>,
    pub(crate) parking_lot: ParkingLot,
    /// Reasons to check connections for idleness after a poll.
    pub(crate) attention: Attention,
    pub(crate) shedding: Shedding,
    /// Whether connections may move to other lanes.
    pub(crate) moving: Moving,
    pub(crate) recent_load: RecentLoad,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<idle::LaneChaos>,
    pub(crate) queue: Queue,
    pub(crate) pending: Pending,
    /// HTTP/2 streams that wait for their clients.
    pub(crate) streams: Streams,
    /// Time of the last sweep, without periods in which a handler held the lane.
    pub(crate) clock: Cell<Instant>,
    random: Random,
    /// Tracks requests, if ids, traces or observers are enabled.
    pub(crate) request_records: Option<RequestRecords>,
    /// Interval between reports of a drain.
    pub(crate) report: Duration,
    /// Notified when the last connection closes.
    pub(crate) emptied: Notify,
    /// Notified when idle connections must end at once.
    pub(crate) hurry: Notify,
    /// Connections that are being rejected now.
    pub(crate) refusing: Cell<usize>,
}

impl LaneState {
    pub(crate) fn new(index: usize, settings: Builder, shared: Arc<Shared>) -> Self {
        LaneState {
            index,
            queue: Queue::new(settings.limits.slots, settings.limits.queue),
            pending: Pending::default(),
            streams: Streams::default(),
            clock: Cell::new(Instant::now()),
            random: Random::new(),
            request_records: RequestRecords::new(
                &settings,
                &Lane { index, shared: Arc::clone(&shared) },
            ),
            report: settings.drain.report,
            limits: settings.limits,
            timeouts: settings.timeouts,
            park_after: settings.park_after,
            plain_requests: settings.plain_requests,
            signature_lines: lines(index, settings.replica.as_ref()),
            signature: settings.replica.map(|replica| (replica, HeaderValue::from(index))),
            load_reports: (settings.load_reports != LoadReports::Off).then(LaneReports::default),
            shared,
            phase: Cell::new(Phase::Serving),
            connections: RefCell::default(),
            parking_lot: ParkingLot::default(),
            attention: Attention::default(),
            shedding: Shedding::new(),
            moving: settings.moving,
            recent_load: RecentLoad::new(),
            #[cfg(feature = "chaos")]
            chaos: settings.chaos.map(|chaos| idle::LaneChaos::new(chaos, index)),
            emptied: Notify::new(),
            hurry: Notify::new(),
            refusing: Cell::new(0),
        }
    }

    /// Whether this lane has no open connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty() && self.parking_lot.is_empty()
    }

    /// Notifies `emptied` if no connection is left.
    pub(crate) fn lost_one(&self) {
        if self.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// A random number from 0 to 1, not for security.
    pub(crate) fn chance(&self) -> f64 {
        self.random.chance()
    }

    /// Ends the request record of a request; see [`RequestRecords::end`].
    pub(crate) fn end_request_record(
        &self,
        request_record: Box<RequestRecord>,
        write: Option<u64>,
    ) {
        if let Some(request_records) = &self.request_records {
            request_records.end(self, request_record, write);
        }
    }

    /// Adds the headers that name the replica and this lane to a reply.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        if let Some((replica, lane)) = &self.signature {
            headers.insert(REPLICA_NAME, replica.clone());
            headers.insert(LANE_NAME, lane.clone());
        }
    }

    /// The headers of [`LaneState::sign`] as lines.
    pub(crate) fn signature_lines(&self) -> &[u8] {
        &self.signature_lines
    }

    /// Adds the load report to a reply, if one is due on its connection.
    pub(crate) fn report_load(&self, connection: &Connection, headers: &mut HeaderMap) {
        if let Some(reports) = &self.load_reports {
            reports.sign(&self.shared.load_report, connection, headers);
        }
    }

    /// The part of the lane's state that other threads can read.
    pub(crate) fn shared(&self) -> &LaneShared {
        &self.shared.lanes[self.index]
    }

    pub(crate) fn metrics(&self) -> &LaneMetrics {
        &self.shared().metrics
    }

    /// The route template of a kind of request.
    pub(crate) fn route(&self, kind: KindIndex) -> &str {
        &self.shared.routes.names()[kind.route()]
    }
}

/// The header lines that name the replica and a lane.
fn lines(index: usize, replica: Option<&HeaderValue>) -> Vec<u8> {
    let Some(replica) = replica else { return Vec::new() };
    let lane = format!("\r\n{LANE}: {index}\r\n");
    [REPLICA.as_bytes(), b": ", replica.as_bytes(), lane.as_bytes()].concat()
}

/// Runs a lane on the calling thread until it is drained or stopped. Returns the number of requests
/// that were cut.
pub(crate) fn run<F, S>(
    lane: Lane,
    source: Source,
    state: LaneState,
    factory: &F,
) -> Result<u64, Error>
where
    F: Fn(&Lane) -> S,
    S: HttpService,
{
    let shared = lane.shared();
    let _occupied = shared.cpu.enter().map_err(Error::system("pinning a lane to its CPU"))?;
    Pool::new(lane.clone(), &state.limits).enter();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    placement::watch_sleep(&mut runtime, &state.shared, lane.index);
    let runtime = runtime
        .enable_all()
        .max_blocking_threads(state.limits.blocking_threads)
        .on_thread_start(unpin_current_thread)
        .thread_name(format!("lane-{}-blocking", lane.index))
        .build_local(Default::default())
        .map_err(Error::system("starting a lane's event loop"))?;
    // Each lane has one thread, so this is the only call.
    let _ = shared.runtime.set(runtime.handle().metrics());
    let ended = runtime.block_on(async {
        let source = source.watch().map_err(Error::system("watching a listener"))?;
        let service = factory(&lane);
        #[cfg(feature = "chaos")]
        if state.chaos.is_some() {
            state.attention.raise(Attention::CHAOS);
        }
        let state = Rc::new(state);
        if state.park_after.is_some() {
            state.parking_lot.open().map_err(Error::system("opening a lane's parking_lot"))?;
        }
        state.shared.set_listening(lane.index);
        spawn_local(sweep::run(Rc::clone(&state)));
        spawn_local(queue::run(Rc::clone(&state)));
        let host = Rc::new(LaneService::new(Rc::clone(&state), service));
        spawn_local(idle::run(Rc::clone(&host)));
        spawn_local(idle::transit::run(Rc::clone(&host)));
        let admission = Admission { state: Rc::clone(&state), host };
        accept_until_drained(admission, source).await;
        let unanswered = state.connections.borrow().iter().map(|(_, c)| c.unanswered()).sum();
        // An awaited call is part of its request, if any request is left.
        let none = unanswered == 0;
        let calls = if none { shared.calls.unfinished() } else { shared.calls.abandoned() };
        let _ = shared.left.set(Left { requests: unanswered, calls });
        Ok(unanswered)
    });
    let calls = shared.calls.unfinished();
    if calls > 0 {
        // The runtime waits for these calls when it is dropped, and cannot log that.
        tracing::info!(lane = lane.index, calls, "drain: waiting for blocking calls");
    }
    ended
}

/// Waits for the server to change its phase and acts on it.
pub(crate) async fn next_phase(state: &LaneState, phase: &mut watch::Receiver<Phase>) {
    if phase.changed().await.is_err() {
        return; // the sender lives in `shared`, which `state` holds
    }
    let now = *phase.borrow_and_update();
    state.phase.set(now);
    if now == Phase::Closing {
        state.hurry.notify_one();
    }
    for (_, connection) in state.connections.borrow().iter() {
        // HTTP/1.1 clients are notified by their next reply, HTTP/2 clients by GOAWAY.
        if now == Phase::Settling && connection.is_multiplexed() {
            connection.tell(Order::Finish);
        }
    }
}

/// The state needed to admit a connection.
pub(crate) struct Admission<S: HttpService> {
    pub(crate) state: Rc<LaneState>,
    host: Rc<LaneService<S>>,
}

impl<S: HttpService> Admission<S> {
    /// Admits a connection, or rejects it if there are too many.
    pub(crate) fn admit(&self, socket: TcpStream) {
        let state = &self.state;
        state.metrics().accepted.add(1);
        if state.shared.try_open(state.limits.connections) {
            self.serve(socket, None);
        } else {
            self.refuse(socket);
        }
    }

    /// Rejects a connection above the limit.
    pub(crate) fn refuse(&self, socket: TcpStream) {
        self.state.metrics().refuse(Refusal::Limit);
        // A reply would require a TLS handshake, whose cost the limit avoids.
        if self.state.shared.tls.is_none() {
            refuse(&self.state, socket);
        }
    }

    /// Serves an admitted connection.
    pub(crate) fn serve(&self, socket: TcpStream, place: Option<Place>) {
        let registration = Registration::new(Rc::clone(&self.state), place);
        // With Nagle's algorithm, a reply in several writes would wait for the acknowledgement of
        // the first (RFC 9293 section 3.7.4). Fails only if the socket is closed.
        let _ = socket.set_nodelay(true);
        spawn_local(serve(Rc::clone(&self.host), registration, socket));
    }
}
