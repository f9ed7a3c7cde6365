//! What the threads of a server share. A request reads its route and the generation of the load
//! report, and writes its own lane's counters; nothing else here is touched by a request.

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
use crate::placement::{Inboxes, ListenerGroup};
use crate::routes::Routes;
use crate::running::Running;
use crate::settings::Placement;
use crate::tls::Termination;
use crate::watchdog::Stalls;

/// The phase of a server. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// The server accepts and answers.
    Serving,
    /// A drain has started: readiness fails, and replies carry `Connection: close`.
    Settling,
    /// Listeners are closed; requests in flight are finished.
    Closing,
    /// All requests have ended or were cut.
    Stopped,
}

impl Phase {
    pub(crate) const ALL: [(Phase, &'static str); 4] = [
        (Phase::Serving, "serving"),
        (Phase::Settling, "settling"),
        (Phase::Closing, "closing"),
        (Phase::Stopped, "stopped"),
    ];
}

#[derive(Debug)]
pub(crate) struct Shared {
    /// As decided at the start; [`LaneShared::cpu`] is what holds now.
    pub(crate) plan: Plan,
    pub(crate) cpus: Cpus,
    pub(crate) routes: Routes,
    /// Set where the port speaks TLS.
    pub(crate) tls: Option<Termination>,
    pub(crate) lanes: Vec<LaneShared>,
    /// What replies tell a load balancer in front.
    pub(crate) load_report: Published,
    pub(crate) listeners: ListenerGroup,
    /// Where an acceptor hands connections to lanes.
    pub(crate) inboxes: Option<Inboxes>,
    /// Plans to move connections between lanes that have ended.
    pub(crate) plans: Plans,
    /// Dependencies of the service.
    pub(crate) dependencies: Arc<Dependencies>,
    phase: watch::Sender<Phase>,
    drain_started: OnceLock<SystemTime>,
    /// Open connections over all lanes, for the limit: changed at accept and close only.
    open: AtomicUsize,
}

/// What one lane shows to the other threads.
#[derive(Debug)]
pub(crate) struct LaneShared {
    pub(crate) metrics: LaneMetrics,
    pub(crate) load_table: LoadTable,
    pub(crate) running: Running,
    pub(crate) cpu: LaneCpu,
    pub(crate) stalls: Stalls,
    pub(crate) calls: Arc<Calls>,
    /// Set when the event loop ends; its thread may then still wait for blocking calls.
    pub(crate) left: OnceLock<Left>,
    /// Of the lane's event loop; set when it runs.
    pub(crate) runtime: OnceLock<RuntimeMetrics>,
    /// Where other lanes leave connections for this one.
    pub(crate) mailbox: Mailbox,
    /// The readiness latch: set when the lane accepts.
    listening: AtomicBool,
}

/// What a lane had not finished when its event loop ended.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) requests: u64,
    /// Blocking calls that are no part of these.
    pub(crate) calls: u64,
}

impl LaneShared {
    /// What is cut if the lane is left as it is: requests, and blocking calls whose requests have
    /// ended.
    pub(crate) fn unfinished(&self) -> u64 {
        match self.left.get() {
            // Those that the loop had not begun are not made.
            Some(left) => left.requests + left.calls.min(self.calls.abandoned()),
            None => self.metrics.in_flight.get() + self.calls.abandoned(),
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire)
    }

    /// Wall-clock time that the event loop was not waiting, up to its last turn.
    pub(crate) fn busy(&self) -> Duration {
        self.runtime.get().map_or(Duration::ZERO, |runtime| runtime.worker_total_busy_duration(0))
    }

    /// Times that the event loop had nothing left to do and waited.
    pub(crate) fn sleeps(&self) -> u64 {
        self.runtime.get().map_or(0, |runtime| runtime.worker_park_count(0))
    }

    /// Time that the lane is expected to need for queued and running requests. It is the sum of
    /// the load table's estimates, less the time that the running handler has had.
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

    /// Begins the drain.
    pub(crate) fn begin_drain(&self) {
        // Before the phase: a reader of the phase then knows since when.
        let _ = self.drain_started.set(SystemTime::now());
        self.advance(Phase::Settling);
    }

    /// When the drain began, since the Unix epoch; 0 while none has.
    pub(crate) fn drain_started(&self) -> Duration {
        let since = |at: &SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).ok();
        self.drain_started.get().and_then(since).unwrap_or_default()
    }

    /// Moves on to `to`; a move backwards is ignored.
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

    /// Whether new requests are welcome: every lane listens, no drain has begun, and nothing is down
    /// that the service may not be without.
    pub(crate) fn ready(&self) -> bool {
        self.phase() == Phase::Serving
            && self.lanes.iter().all(LaneShared::is_listening)
            && self.dependencies.allow_ready()
    }

    /// Takes a place among the open connections, if there is one.
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

    /// Connections that have departed from a lane and not arrived yet.
    pub(crate) fn in_transit(&self) -> u64 {
        // In this order, so that one which departs and arrives meanwhile does not count below 0.
        let arrived: u64 = self.lanes.iter().map(|lane| lane.metrics.arrived.get()).sum();
        let departed: u64 = self.lanes.iter().map(|lane| lane.metrics.departed()).sum();
        departed.saturating_sub(arrived)
    }
}
