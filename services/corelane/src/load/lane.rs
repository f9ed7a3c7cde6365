//! The lanes of a server, as all its threads see them.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;

use crate::load::activity::{Calls, Running, Stalls};
use crate::load::table::LoadTable;
use crate::metrics::LaneMetrics;
use crate::os::cpu::LaneCpu;

/// The part of a lane's state that other threads can read.
#[derive(Debug)]
pub(crate) struct LaneShared {
    pub(crate) metrics: LaneMetrics,
    pub(crate) load_table: LoadTable,
    pub(crate) running: Running,
    pub(crate) cpu: LaneCpu,
    pub(crate) stalls: Stalls,
    pub(crate) calls: Arc<Calls>,
    /// Set when the event loop ends. The thread may then still wait for blocking calls.
    pub(crate) left: OnceLock<Left>,
    /// Metrics of the lane's event loop, set when it runs.
    pub(crate) runtime: OnceLock<RuntimeMetrics>,
    /// Set when the lane accepts connections; required for readiness.
    listening: AtomicBool,
}

/// Work that a lane had not finished when its event loop ended.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) requests: u64,
    /// Blocking calls that do not belong to these requests.
    pub(crate) calls: u64,
}

impl LaneShared {
    fn new(cpu: Option<usize>, routes: (usize, usize)) -> Self {
        LaneShared {
            metrics: LaneMetrics::new(routes),
            load_table: LoadTable::new(routes),
            running: Running::new(),
            cpu: LaneCpu::new(cpu),
            stalls: Stalls::new(routes),
            calls: Arc::default(),
            left: OnceLock::new(),
            runtime: OnceLock::new(),
            listening: AtomicBool::new(false),
        }
    }

    /// Work that is cut if the lane is abandoned now: requests, and blocking calls whose requests
    /// have ended.
    pub(crate) fn unfinished(&self) -> u64 {
        match self.left.get() {
            // Calls that had not started do not run.
            Some(left) => left.requests + left.calls.min(self.calls.abandoned()),
            None => self.metrics.in_flight.get() + self.calls.abandoned(),
        }
    }

    pub(crate) fn set_listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Wall-clock time for which the event loop was not waiting, up to its last turn.
    pub(crate) fn busy(&self) -> Duration {
        self.runtime.get().map_or(Duration::ZERO, |runtime| runtime.worker_total_busy_duration(0))
    }

    /// Number of times that the event loop had no work and waited.
    pub(crate) fn sleeps(&self) -> u64 {
        self.runtime.get().map_or(0, |runtime| runtime.worker_park_count(0))
    }

    /// Time that the lane is expected to need for its queued and running requests: the sum of the
    /// load table's estimates, less the elapsed time of the running handler.
    pub(crate) fn expected_work(&self, now: Instant) -> Duration {
        let all = Duration::from_nanos(self.metrics.expected.get());
        let had = self.running.get(now).map_or(Duration::ZERO, |(kind, since)| {
            since.min(Duration::from_nanos(self.load_table.expect(kind)))
        });
        all.saturating_sub(had)
    }
}

/// All lanes of a server, and what they share: the number of open connections.
#[derive(Debug)]
pub(crate) struct LaneGroup {
    lanes: Box<[LaneShared]>,
    /// Open connections over all lanes, for the limit. Changed only on accept and close.
    open: Open,
}

/// On its own cache lines, because requests read its neighbor.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Open(AtomicUsize);

impl Deref for LaneGroup {
    type Target = [LaneShared];

    fn deref(&self) -> &[LaneShared] {
        &self.lanes
    }
}

impl LaneGroup {
    /// A lane for each entry of `cpus`, pinned to it if it is set, with counters for these
    /// [`Rows`](crate::metrics::Rows) of routes.
    pub(crate) fn new(cpus: &[Option<usize>], routes: (usize, usize)) -> Arc<Self> {
        let lanes = cpus.iter().map(|&cpu| LaneShared::new(cpu, routes)).collect();
        Arc::new(LaneGroup { lanes, open: Open::default() })
    }

    /// Reserves one of the open connections, if the limit allows.
    pub(crate) fn try_open(&self, limit: usize) -> bool {
        if self.open.0.fetch_add(1, Ordering::Relaxed) < limit {
            return true;
        }
        self.open.0.fetch_sub(1, Ordering::Relaxed);
        false
    }

    pub(crate) fn close(&self) {
        self.open.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Unfinished blocking calls over all lanes.
    pub(crate) fn blocking_calls(&self) -> u64 {
        self.iter().map(|lane| lane.calls.unfinished()).sum()
    }

    /// Requests in flight over all lanes.
    pub(crate) fn in_flight(&self) -> u64 {
        self.iter().map(|lane| lane.metrics.in_flight.get()).sum()
    }

    /// Connections that have left a lane and not arrived at another.
    pub(crate) fn in_transit(&self) -> u64 {
        // In this order, so that a connection which departs and arrives in between does not make
        // the result negative.
        let arrived: u64 = self.iter().map(|lane| lane.metrics.arrived.get()).sum();
        let departed: u64 = self.iter().map(|lane| lane.metrics.departed()).sum();
        departed.saturating_sub(arrived)
    }
}

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
    pub(crate) lanes: Arc<LaneGroup>,
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

    /// Number of lanes of the server, to divide by it what they share, such as the connections that a
    /// database allows.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn shared(&self) -> &LaneShared {
        &self.lanes[self.index]
    }

    /// The CPU that the lane is currently pinned to; `None` when lanes are not pinned. It changes with
    /// the cpuset of the process.
    pub fn cpu(&self) -> Option<usize> {
        self.shared().cpu.get()
    }
}
