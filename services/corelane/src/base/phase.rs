//! Server phases.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

/// A server's phase, which only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Phase {
    /// The server accepts connections and serves requests.
    Serving,
    /// A drain has started: readiness fails and responses carry `Connection: close`.
    Settling,
    /// Listeners are closed, and requests in flight run to completion.
    Closing,
    /// All requests have finished or have been cut off.
    Stopped,
}

impl Phase {
    pub(crate) const ALL: [(Phase, &'static str); 4] = [
        (Phase::Serving, "serving"),
        (Phase::Settling, "settling"),
        (Phase::Closing, "closing"),
        (Phase::Stopped, "stopped"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Phase::ALL.iter().find(|(phase, _)| *phase == self).map_or("", |(_, name)| name)
    }
}

/// Opens when every lane and slow lane has its service. Until then, no lane serves requests.
#[derive(Debug)]
pub(crate) struct StartGate {
    /// Number of lanes that do not have their service yet, or `None` once a lane has failed to
    /// create its service.
    missing: watch::Sender<Option<usize>>,
}

impl StartGate {
    pub(crate) fn new(lanes: usize) -> Self {
        StartGate { missing: watch::Sender::new(Some(lanes)) }
    }

    /// Returns a lane's pass. The gate opens once all lanes have reported with their passes.
    pub(crate) fn pass(&self) -> StartPass<'_> {
        StartPass { gate: self, arrived: false }
    }

    pub(crate) fn close(&self) {
        self.missing.send_replace(None);
    }

    /// Waits for the gate to open. Returns false if the gate will never open.
    pub(crate) async fn opened(&self) -> bool {
        let mut missing = self.missing.subscribe();
        let decided = missing.wait_for(|missing| missing.is_none_or(|lanes| lanes == 0)).await;
        decided.is_ok_and(|missing| missing.is_some())
    }
}

/// A lane reports to the [`StartGate`] with this pass.
#[derive(Debug)]
pub(crate) struct StartPass<'a> {
    gate: &'a StartGate,
    arrived: bool,
}

impl StartPass<'_> {
    pub(crate) fn arrive(mut self) {
        self.arrived = true;
        self.gate.missing.send_modify(|missing| *missing = missing.map(|lanes| lanes - 1));
    }
}

impl Drop for StartPass<'_> {
    fn drop(&mut self) {
        if !self.arrived {
            self.gate.close();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Lifecycle {
    phase: watch::Sender<Phase>,
    drain_started: OnceLock<SystemTime>,
}

impl Lifecycle {
    pub(crate) fn new() -> Self {
        Lifecycle { phase: watch::Sender::new(Phase::Serving), drain_started: OnceLock::new() }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn begin_drain(&self) {
        // Set before the phase, so that any thread that sees the phase also sees this value.
        let _ = self.drain_started.set(SystemTime::now());
        self.advance(Phase::Settling);
    }

    /// Start time of the drain, measured from the Unix epoch, or 0 before a drain.
    pub(crate) fn drain_started(&self) -> Duration {
        let since = |at: &SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).ok();
        self.drain_started.get().and_then(since).unwrap_or_default()
    }

    /// Advances to `to`. Does nothing if the server is already past that phase.
    pub(crate) fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let forward = to > *phase;
            if forward {
                *phase = to;
            }
            forward
        });
    }
}
