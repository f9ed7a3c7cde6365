//! A server's lanes, shared by all of its threads.

use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::load::activity::{Calls, Running, Stalls};
use crate::load::peers::{PeerPlace, Peers};
use crate::load::table::LoadTable;
use crate::metrics::{Count, LaneMetrics, Refusal};
use crate::os::cpu::LaneCpu;

#[derive(Debug)]
pub(crate) struct LaneShared {
    pub(crate) metrics: LaneMetrics,
    pub(crate) load_table: LoadTable,
    pub(crate) running: Running,
    pub(crate) cpu: LaneCpu,
    pub(crate) stalls: Stalls,
    pub(crate) calls: Arc<Calls>,
    /// Nanoseconds that the lane waited in order to give its slow lane a share of the CPU.
    pub(crate) yielded: Count,
    /// Set when the event loop ends. The thread may still be waiting for blocking calls.
    pub(crate) left: OnceLock<Left>,
    /// Set when the event loop starts.
    pub(crate) runtime: OnceLock<RuntimeMetrics>,
    /// Set when the lane accepts connections, which readiness requires.
    listening: AtomicBool,
    /// Cancelled when a drain starts. Each lane has its own token, so lanes do not share a lock.
    draining: CancellationToken,
}

/// Work that a lane had not finished when its event loop ended.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) requests: u64,
    /// Blocking calls that do not belong to these requests.
    pub(crate) calls: u64,
}

impl LaneShared {
    fn new(cpu: Option<usize>, routes: (usize, usize), bound: Option<Duration>) -> Self {
        LaneShared {
            metrics: LaneMetrics::new(routes),
            load_table: LoadTable::new(routes, bound),
            running: Running::new(),
            cpu: LaneCpu::new(cpu),
            stalls: Stalls::new(routes),
            calls: Arc::default(),
            yielded: Count::default(),
            left: OnceLock::new(),
            runtime: OnceLock::new(),
            listening: AtomicBool::new(false),
            draining: CancellationToken::new(),
        }
    }

    /// Number of requests and blocking calls that are cut if the lane is abandoned now. Only calls
    /// whose requests have ended count separately.
    pub(crate) fn unfinished(&self) -> u64 {
        match self.left.get() {
            // Calls that have not started do not run.
            Some(left) => left.requests + left.calls.min(self.calls.abandoned()),
            None => self.open_exchanges() + self.calls.abandoned(),
        }
    }

    fn open_exchanges(&self) -> u64 {
        self.metrics.in_flight.get() + self.metrics.upgraded.get()
    }

    /// Asserts that an ended lane left nothing behind.
    pub(crate) fn check_empty(&self) {
        let LaneMetrics { open, upgraded, in_flight, queued, expected, unsent, .. } = &self.metrics;
        for (name, left) in [
            ("requests in flight", in_flight),
            ("queued requests", queued),
            ("nanoseconds of expected work", expected),
            ("unsent bytes", unsent),
        ] {
            debug_assert_eq!(left.get(), 0, "{name} are left of a lane");
        }
        // The service may keep an upgraded connection for as long as the process runs.
        let kept = open.get() == 0 || upgraded.get() > 0;
        debug_assert!(kept, "{} connections are left of a lane", open.get());
    }

    pub(crate) fn set_listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Wall-clock time of event-loop work, up to the last turn.
    pub(crate) fn loop_busy(&self) -> Duration {
        self.runtime.get().map_or(Duration::ZERO, |runtime| runtime.worker_total_busy_duration(0))
    }

    /// [`LaneShared::loop_busy`] plus the CPU time of the slow lane, which runs on the same CPU.
    /// Time yielded to the slow lane is counted once.
    pub(crate) fn busy(&self) -> Duration {
        (self.loop_busy() + self.cpu.slow_time()).saturating_sub(self.yielded())
    }

    /// Time yielded to the slow lane for its CPU share.
    pub(crate) fn yielded(&self) -> Duration {
        Duration::from_nanos(self.yielded.get())
    }

    pub(crate) fn sleeps(&self) -> u64 {
        self.runtime.get().map_or(0, |runtime| runtime.worker_park_count(0))
    }

    /// Expected time for the lane's queued and running requests: the load table's estimates, minus
    /// the elapsed time of the running handler.
    pub(crate) fn expected_work(&self, now: Instant) -> Duration {
        let all = Duration::from_nanos(self.metrics.expected.get());
        let had = self.running.get(now).map_or(Duration::ZERO, |(kind, since)| {
            since.min(Duration::from_nanos(self.load_table.expect(kind)))
        });
        all.saturating_sub(had)
    }
}

/// A server's lanes, and the open connections that they share.
#[derive(Debug)]
pub(crate) struct LaneGroup {
    lanes: Box<[Arc<LaneShared>]>,
    has_slow_lanes: bool,
    /// Open connections across all lanes. The count changes only on accept and close.
    open: Open,
    /// Open connections per address, if they are limited.
    peers: Option<Arc<Peers>>,
}

/// The count has its own cache lines, because requests read the adjacent field.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Open(AtomicUsize);

impl Deref for LaneGroup {
    type Target = [Arc<LaneShared>];

    fn deref(&self) -> &[Arc<LaneShared>] {
        &self.lanes
    }
}

impl LaneGroup {
    /// Creates a lane for each entry of `cpus`, pinned to the CPU that the entry names, if any,
    /// with counters for these route [`Rows`](crate::metrics::Rows). `of_address` limits the
    /// connections per address. Polls that take longer than `bound` count as long polls (`None`
    /// without slow lanes).
    pub(crate) fn new(
        cpus: &[Option<usize>],
        routes: (usize, usize),
        of_address: Option<usize>,
        bound: Option<Duration>,
    ) -> Arc<Self> {
        let lane = |&cpu| Arc::new(LaneShared::new(cpu, routes, bound));
        Arc::new(LaneGroup {
            lanes: cpus.iter().map(lane).collect(),
            has_slow_lanes: bound.is_some(),
            open: Open::default(),
            peers: of_address.map(Peers::new),
        })
    }

    pub(crate) fn has_slow_lanes(&self) -> bool {
        self.has_slow_lanes
    }

    /// Reserves one of `limit` open connections and a place for its address, unless either limit is
    /// reached.
    pub(crate) fn admit(
        &self,
        limit: usize,
        peer: Option<SocketAddr>,
    ) -> Result<PeerPlace, Refusal> {
        let place = match (&self.peers, peer) {
            (Some(peers), Some(peer)) => peers.enter(peer.ip()).ok_or(Refusal::AddressLimit)?,
            _ => PeerPlace::default(),
        };
        if self.open.0.fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(place);
        }
        self.open.0.fetch_sub(1, Ordering::Relaxed);
        Err(Refusal::Limit)
    }

    pub(crate) fn close(&self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn blocking_calls(&self) -> u64 {
        self.iter().map(|lane| lane.calls.unfinished()).sum()
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.iter().map(|lane| lane.metrics.in_flight.get()).sum()
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.iter().map(|lane| lane.metrics.unsent.get()).sum()
    }

    pub(crate) fn upgraded(&self) -> u64 {
        self.iter().map(|lane| lane.metrics.upgraded.get()).sum()
    }

    pub(crate) fn begin_drain(&self) {
        self.iter().for_each(|lane| lane.draining.cancel());
    }

    /// Number of connections that have left one lane but not yet arrived at another.
    pub(crate) fn in_transit(&self) -> u64 {
        // Reading arrivals first ensures that a connection that departs and arrives in between
        // cannot make the result negative.
        let arrived: u64 = self.iter().map(|lane| lane.metrics.arrived.get()).sum();
        let departed: u64 = self.iter().map(|lane| lane.metrics.departed()).sum();
        departed.saturating_sub(arrived)
    }
}

/// The lane that a service is created for. [`Server::serve`](crate::Server::serve) passes it to its
/// closure, once on the thread of each lane and each slow lane.
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
    pub(crate) lanes: Arc<LaneGroup>,
    is_slow: bool,
    /// This lane's part of `lanes`, which each request reads a dozen times.
    shared: Arc<LaneShared>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lane = f.debug_struct("Lane");
        lane.field("index", &self.index).field("cpu", &self.cpu());
        lane.field("is_slow", &self.is_slow).finish()
    }
}

impl Lane {
    pub(crate) fn new(index: usize, lanes: &Arc<LaneGroup>) -> Self {
        let (lanes, shared) = (Arc::clone(lanes), Arc::clone(&lanes[index]));
        Lane { index, lanes, is_slow: false, shared }
    }

    pub(crate) fn slow(&self) -> Self {
        Lane { is_slow: true, ..self.clone() }
    }

    /// Lane index, starting at 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of lanes, excluding slow lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Number of service instances: one per lane and one per slow lane. Divide shared resources by
    /// this number, such as the connections that a database allows.
    pub fn instances(&self) -> usize {
        self.lanes() * if self.lanes.has_slow_lanes() { 2 } else { 1 }
    }

    /// Whether this is the slow lane of the lane with this index. See
    /// [`Builder::slow_lanes`](crate::Builder::slow_lanes).
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    pub(crate) fn shared(&self) -> &LaneShared {
        &self.shared
    }

    /// CPU that the lane is currently pinned to, or `None` for an unpinned lane. The value changes
    /// with the process's cpuset.
    pub fn cpu(&self) -> Option<usize> {
        self.shared().cpu.get()
    }

    /// Waits until a drain starts, or completes at once if a drain has already started.
    ///
    /// Await it in handlers, streamed responses and WebSockets that would otherwise last for as
    /// long as their clients want, so that they end cleanly before they are cut off at
    /// [`Drain::deadline`](crate::Drain::deadline). Waiting costs nothing and does not take a
    /// shared lock. One clone of the `Lane` in a service's state is enough for all requests.
    ///
    /// ```
    /// use std::convert::Infallible;
    ///
    /// use axum::Router;
    /// use axum::body::Body;
    /// use axum::routing::get;
    /// use corelane::Lane;
    /// use futures_util::{StreamExt, stream};
    ///
    /// // An endless response that ends when a drain starts.
    /// fn service(lane: &Lane) -> Router {
    ///     let lane = lane.clone();
    ///     let zeros = async move || {
    ///         let zeros = stream::repeat("0\n").map(Ok::<_, Infallible>);
    ///         Body::from_stream(zeros.take_until(lane.draining()))
    ///     };
    ///     Router::new().route("/zeros", get(zeros))
    /// }
    ///
    /// # let server = corelane::Server::builder().bind("127.0.0.1:0".parse().unwrap()).build()?;
    /// # server.handle().stop();
    /// server.serve(service)?;
    /// # Ok::<(), corelane::Error>(())
    /// ```
    pub fn draining(&self) -> Draining {
        Draining(Box::pin(self.shared().draining.clone().cancelled_owned()))
    }
}

/// A future that completes when a drain starts. See [`Lane::draining`].
///
/// It stays ready, so a loop may poll it by reference repeatedly.
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Draining(Pin<Box<WaitForCancellationFutureOwned>>);

impl Future for Draining {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}
