//! State shared by the threads of a server. A request reads its route and the generation of the
//! load report, and writes the counters of its lane. It accesses nothing else here.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::RuntimeMetrics;
use tokio::sync::watch;

use crate::blocking::Calls;
use crate::cpu::{Cpus, LaneCpu, Plan};
use crate::dependency::Dependencies;
use crate::idle::Mailbox;
use crate::load_report::Published;
use crate::load_table::LoadTable;
use crate::metrics::{LaneMetrics, Plans};
use crate::phase::Phase;
use crate::placement::{Inboxes, ListenerGroup};
use crate::routes::Routes;
use crate::running::Running;
use crate::settings::Placement;
use crate::stalls::Stalls;
use crate::tls::Termination;

#[derive(Debug)]
pub(crate) struct Shared {
    /// The plan at the start. [`LaneShared::cpu`] is the current state.
    pub(crate) plan: Plan,
    pub(crate) cpus: Cpus,
    pub(crate) routes: Routes,
    /// Set if the port uses TLS.
    pub(crate) tls: Option<Termination>,
    pub(crate) lanes: Vec<LaneShared>,
    /// The load report for replies.
    pub(crate) load_report: Published,
    pub(crate) listeners: ListenerGroup,
    /// The inboxes of the lanes, if an acceptor fills them.
    pub(crate) inboxes: Option<Inboxes>,
    /// Counters of finished plans to move connections between lanes.
    pub(crate) plans: Plans,
    /// Dependencies of the service.
    pub(crate) dependencies: Arc<Dependencies>,
    phase: watch::Sender<Phase>,
    drain_started: OnceLock<SystemTime>,
    /// Open connections over all lanes, for the limit. Changed only on accept and close.
    open: AtomicUsize,
}

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
    /// Connections that other lanes have sent to this one.
    pub(crate) mailbox: Mailbox,
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
    /// Work that is cut if the lane is abandoned now: requests, and blocking calls whose requests
    /// have ended.
    pub(crate) fn unfinished(&self) -> u64 {
        match self.left.get() {
            // Calls that had not started do not run.
            Some(left) => left.requests + left.calls.min(self.calls.abandoned()),
            None => self.metrics.in_flight.get() + self.calls.abandoned(),
        }
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

impl Shared {
    pub(crate) fn new(
        plan: Plan,
        cpus: Cpus,
        routes: Routes,
        tls: Option<Termination>,
        placement: Placement,
        steering: bool,
    ) -> Arc<Self> {
        let lanes = plan.lanes.iter().map(|&cpu| LaneShared {
            metrics: LaneMetrics::new(routes.names().len()),
            load_table: LoadTable::new(routes.names().len()),
            running: Running::new(),
            cpu: LaneCpu::new(cpu),
            stalls: Stalls::new(routes.names().len()),
            calls: Arc::default(),
            left: OnceLock::new(),
            runtime: OnceLock::new(),
            mailbox: Mailbox::new(),
            listening: AtomicBool::new(false),
        });
        let lanes: Vec<_> = lanes.collect();
        let least_loaded = placement == Placement::LeastLoaded;
        let inboxes = least_loaded.then(|| Inboxes::new(lanes.len()));
        let listeners = ListenerGroup::new(steering && placement == Placement::Hashed);
        let phase = watch::Sender::new(Phase::Serving);
        let load_report = Published::default();
        let open = AtomicUsize::new(0);
        Arc::new(Shared {
            plan,
            cpus,
            routes,
            tls,
            lanes,
            load_report,
            listeners,
            inboxes,
            plans: Plans::default(),
            dependencies: Arc::default(),
            phase,
            drain_started: OnceLock::new(),
            open,
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn watch_phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Starts the drain.
    pub(crate) fn begin_drain(&self) {
        // Set before the phase, so that a reader of the phase finds it set.
        let _ = self.drain_started.set(SystemTime::now());
        self.advance(Phase::Settling);
    }

    /// When the drain started, since the Unix epoch; 0 if it has not.
    pub(crate) fn drain_started(&self) -> Duration {
        let since = |at: &SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).ok();
        self.drain_started.get().and_then(since).unwrap_or_default()
    }

    /// Advances to `to`. Ignored if that would go backwards.
    pub(crate) fn advance(&self, to: Phase) {
        if to >= Phase::Closing {
            self.listeners.release();
        }
        self.phase.send_if_modified(|phase| {
            let forward = to > *phase;
            if forward {
                *phase = to;
            }
            forward
        });
    }

    pub(crate) fn set_listening(&self, lane: usize) {
        self.lanes[lane].listening.store(true, Ordering::Release);
    }

    /// Whether the server is ready: every lane listens, no drain has started, and no required
    /// dependency is down.
    pub(crate) fn ready(&self) -> bool {
        self.phase() == Phase::Serving
            && self.lanes.iter().all(LaneShared::is_listening)
            && self.dependencies.allow_ready()
    }

    /// Reserves a place among the open connections, if the limit allows.
    pub(crate) fn try_open(&self, limit: usize) -> bool {
        if self.open.fetch_add(1, Ordering::Relaxed) < limit {
            return true;
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        false
    }

    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Unfinished blocking calls over all lanes.
    pub(crate) fn blocking_calls(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.calls.unfinished()).sum()
    }

    /// Requests in flight over all lanes.
    pub(crate) fn in_flight(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.metrics.in_flight.get()).sum()
    }

    /// Connections that have left a lane and not arrived at another.
    pub(crate) fn in_transit(&self) -> u64 {
        // In this order, so that a connection which departs and arrives in between does not make
        // the result negative.
        let arrived: u64 = self.lanes.iter().map(|lane| lane.metrics.arrived.get()).sum();
        let departed: u64 = self.lanes.iter().map(|lane| lane.metrics.departed()).sum();
        departed.saturating_sub(arrived)
    }
}
