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
use crate::farewell::refuse;
use crate::http_connection::{LaneService, serve};
use crate::idle::{self, Attention, Lately, Lot, Shedding};
use crate::load_report::{LaneReports, LoadReports};
use crate::load_table::KindIndex;
use crate::metrics::{LaneMetrics, Refusal};
use crate::pending::Pending;
use crate::placement::{self, Place, Source, accept_until_drained};
use crate::queue::{self, Queue};
use crate::random::Random;
use crate::reply::HttpService;
use crate::settings::{Limits, Moving, Timeouts};
use crate::shared::{LaneShared, Left, Phase, Shared};
use crate::stream_task::Streams;
use crate::sweep;
use crate::trail::{Trail, Trails};

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

/// What belongs to one lane and never leaves its thread.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) index: usize,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// How long a connection is idle before it parks.
    pub(crate) park_after: Option<Duration>,
    /// Whether plain requests are answered without hyper.
    pub(crate) plain_requests: bool,
    /// Names of the replica and of this lane, for replies.
    signature: Option<(HeaderValue, HeaderValue)>,
    /// The same as lines of a head.
    signature_lines: Vec<u8>,
    load_reports: Option<LaneReports>,
    pub(crate) shared: Arc<Shared>,
    /// The server's phase as this lane has noticed it.
    pub(crate) phase: Cell<Phase>,
    /// Those that have a task; parked ones are in the lot.
    pub(crate) connections: RefCell<Slab<Rc<Connection>>>,
    pub(crate) lot: Lot,
    /// Whether connections that have to wait are asked whether they are idle.
    pub(crate) attention: Attention,
    pub(crate) shedding: Shedding,
    /// Whether connections may leave for other lanes.
    pub(crate) moving: Moving,
    pub(crate) lately: Lately,
    #[cfg(feature = "chaos")]
    pub(crate) chaos: Option<idle::LaneChaos>,
    pub(crate) queue: Queue,
    pub(crate) pending: Pending,
    /// HTTP/2 streams that wait for their clients.
    pub(crate) streams: Streams,
    /// The time of the last sweep, without the time in which the lane could hear no client.
    pub(crate) clock: Cell<Instant>,
    random: Random,
    /// What follows requests, if anybody wants to know.
    pub(crate) trails: Option<Trails>,
    /// How often a drain says what it waits for.
    pub(crate) report: Duration,
    /// Told when the last connection closes.
    pub(crate) emptied: Notify,
    /// Told when idle connections have to go at once.
    pub(crate) hurry: Notify,
    /// Connections being refused at this moment.
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
            trails: Trails::new(&settings, &Lane { index, shared: Arc::clone(&shared) }),
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
            lot: Lot::default(),
            attention: Attention::default(),
            shedding: Shedding::new(),
            moving: settings.moving,
            lately: Lately::new(),
            #[cfg(feature = "chaos")]
            chaos: settings.chaos.map(|chaos| idle::LaneChaos::new(chaos, index)),
            emptied: Notify::new(),
            hurry: Notify::new(),
            refusing: Cell::new(0),
        }
    }

    /// Whether no connection is open here.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty() && self.lot.is_empty()
    }

    /// A connection is here no longer: says so to whoever waits for the last one.
    pub(crate) fn lost_one(&self) {
        if self.is_empty() {
            self.emptied.notify_one();
        }
    }

    /// A random number from 0 to 1, for what needs no secrecy.
    pub(crate) fn chance(&self) -> f64 {
        self.random.chance()
    }

    /// A request that was followed has ended, with what [`Trails::end`] says.
    pub(crate) fn end_trail(&self, trail: Box<Trail>, write: Option<u64>) {
        if let Some(trails) = &self.trails {
            trails.end(self, trail, write);
        }
    }

    /// Names the replica and this lane in a reply.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        if let Some((replica, lane)) = &self.signature {
            headers.insert(REPLICA_NAME, replica.clone());
            headers.insert(LANE_NAME, lane.clone());
        }
    }

    /// What [`LaneState::sign`] adds, as lines of a head.
    pub(crate) fn signature_lines(&self) -> &[u8] {
        &self.signature_lines
    }

    /// Adds the load report to a reply, if one is due on its connection.
    pub(crate) fn report_load(&self, connection: &Connection, headers: &mut HeaderMap) {
        if let Some(reports) = &self.load_reports {
            reports.sign(&self.shared.load_report, connection, headers);
        }
    }

    /// What this lane shows to other threads.
    pub(crate) fn shared(&self) -> &LaneShared {
        &self.shared.lanes[self.index]
    }

    pub(crate) fn metrics(&self) -> &LaneMetrics {
        &self.shared().metrics
    }

    /// Template of the route of a kind of request.
    pub(crate) fn route(&self, kind: KindIndex) -> &str {
        &self.shared.routes.names()[kind.route()]
    }
}

/// The lines of a head that name the replica and a lane of it.
fn lines(index: usize, replica: Option<&HeaderValue>) -> Vec<u8> {
    let Some(replica) = replica else { return Vec::new() };
    let lane = format!("\r\n{LANE}: {index}\r\n");
    [REPLICA.as_bytes(), b": ", replica.as_bytes(), lane.as_bytes()].concat()
}

/// Runs a lane on the calling thread until it is drained or stopped; the requests that were cut.
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
    // The first to be set is this one: each lane has one thread.
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
            state.lot.open().map_err(Error::system("opening a lane's lot"))?;
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
        // A call that is waited for is a part of its request, if one is left.
        let none = unanswered == 0;
        let calls = if none { shared.calls.unfinished() } else { shared.calls.abandoned() };
        let _ = shared.left.set(Left { requests: unanswered, calls });
        Ok(unanswered)
    });
    let calls = shared.calls.unfinished();
    if calls > 0 {
        // The end of the event loop waits for them, and nothing else is left to say so.
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
        // HTTP/1.1 clients are told with their next reply; HTTP/2 has GOAWAY for it.
        if now == Phase::Settling && connection.is_multiplexed() {
            connection.tell(Order::Finish);
        }
    }
}

/// What a new connection is taken in with.
pub(crate) struct Admission<S: HttpService> {
    pub(crate) state: Rc<LaneState>,
    host: Rc<LaneService<S>>,
}

impl<S: HttpService> Admission<S> {
    /// Takes a new connection in, or refuses it when there are too many.
    pub(crate) fn admit(&self, socket: TcpStream) {
        let state = &self.state;
        state.metrics().accepted.add(1);
        if state.shared.try_open(state.limits.connections) {
            self.serve(socket, None);
        } else {
            self.refuse(socket);
        }
    }

    /// Refuses a connection that is one too many.
    pub(crate) fn refuse(&self, socket: TcpStream) {
        self.state.metrics().refuse(Refusal::Limit);
        // Nothing can be said before a handshake, which is what the limit is to spare us.
        if self.state.shared.tls.is_none() {
            refuse(&self.state, socket);
        }
    }

    /// Serves a connection that has its place among the open ones.
    pub(crate) fn serve(&self, socket: TcpStream, place: Option<Place>) {
        let registration = Registration::new(Rc::clone(&self.state), place);
        // A reply in several writes must not wait for the acknowledgement of the first (RFC 9293
        // section 3.7.4, Nagle's algorithm). Fails only for a socket that is gone already.
        let _ = socket.set_nodelay(true);
        spawn_local(serve(Rc::clone(&self.host), registration, socket));
    }
}
