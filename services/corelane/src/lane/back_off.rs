//! Pauses accepting after errors.

use std::io;
use std::time::Duration;

/// Keeps a listener from spinning while the system is out of files or memory.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    /// Whether the last accept failed because of missing resources.
    short: bool,
}

/// Length of a pause. Resources become free when connections end.
const PAUSE: Duration = Duration::from_millis(50);

impl BackOff {
    /// Records a failed accept. Returns the pause: the queue is still readable, so accepting again
    /// at once would spin. `None` if the error affects one connection only (accept(2)).
    pub(crate) fn failed(&mut self, error: &io::Error) -> Option<Duration> {
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return None;
        }
        if !self.short {
            self.short = true;
            tracing::warn!(%error, pause = ?PAUSE, "accept fails; retrying");
        }
        Some(PAUSE)
    }

    /// Records a successful accept.
    pub(crate) fn accepted(&mut self) {
        if self.short {
            self.short = false;
            tracing::info!("accept works again");
        }
    }
}
