//! Phases of a server.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

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

/// The current phase of a server, for all its threads.
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
        self.phase.send_if_modified(|phase| {
            let forward = to > *phase;
            if forward {
                *phase = to;
            }
            forward
        });
    }
}
