//! What happens when accepting fails.

use std::io;
use std::time::Duration;

/// Keeps a listener from spinning while the system is out of files or memory.
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    /// Whether the last accept failed for want of something.
    short: bool,
}

/// How long a listener rests: what it waits for is freed when connections end.
const PAUSE: Duration = Duration::from_millis(50);

impl BackOff {
    /// Notes that an accept failed. How long to rest: the queue is still readable, so accepting
    /// again at once would spin. `None` when the error concerns one connection alone (accept(2)).
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

    /// Notes that an accept worked.
    pub(crate) fn accepted(&mut self) {
        if self.short {
            self.short = false;
            tracing::info!("accept works again");
        }
    }
}
