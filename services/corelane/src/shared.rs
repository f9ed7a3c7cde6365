//! What the threads of a server share. A request reads its route and writes its own lane's counters;
//! nothing else here is touched on its way.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::runtime::RuntimeMetrics;
use tokio::sync::watch;

use crate::cpu::Plan;
use crate::metrics::LaneMetrics;
use crate::routes::Routes;

/// Where a server is in its life. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// It accepts and answers.
    Serving,
    /// A drain began: readiness fails, requests are answered with `Connection: close`.
    Settling,
    /// Listeners are being closed; what is in flight is finished.
    Closing,
    /// What was left has been cut, or nothing was left.
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
    pub(crate) plan: Plan,
    pub(crate) routes: Routes,
    pub(crate) lanes: Vec<LaneShared>,
    phase: watch::Sender<Phase>,
    /// Open connections over all lanes, for the limit: changed at accept and close only.
    open: AtomicUsize,
}

/// What one lane shows to the other threads.
#[derive(Debug)]
pub(crate) struct LaneShared {
    pub(crate) metrics: LaneMetrics,
    /// Of the lane's event loop; set when it runs.
    pub(crate) runtime: OnceLock<RuntimeMetrics>,
    /// The readiness latch: set when the lane accepts.
    listening: AtomicBool,
}

impl Shared {
    pub(crate) fn new(plan: Plan, routes: Routes) -> Arc<Self> {
        let lanes = plan.lanes.iter().map(|_| LaneShared {
            metrics: LaneMetrics::new(routes.names().len()),
            runtime: OnceLock::new(),
            listening: AtomicBool::new(false),
        });
        let lanes = lanes.collect();
        let phase = watch::Sender::new(Phase::Serving);
        Arc::new(Shared { plan, routes, lanes, phase, open: AtomicUsize::new(0) })
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn watch_phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Moves on to `to`; a move backwards is ignored.
    pub(crate) fn advance(&self, to: Phase) {
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

    /// Whether new requests are welcome: every lane listens and no drain has begun.
    pub(crate) fn ready(&self) -> bool {
        self.phase() == Phase::Serving
            && self.lanes.iter().all(|lane| lane.listening.load(Ordering::Acquire))
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

    /// Requests in flight over all lanes.
    pub(crate) fn in_flight(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.metrics.in_flight.get()).sum()
    }
}
