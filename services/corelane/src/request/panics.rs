//! Whether the library logs panics of handlers.

use std::sync::atomic::{AtomicBool, Ordering};

static LOGGED: AtomicBool = AtomicBool::new(false);

/// Declares that the program's panic hook logs each panic with [`route`](crate::route) and
/// [`request_id`](crate::request_id). The library then does not log handler panics itself.
pub fn panics_are_logged() {
    LOGGED.store(true, Ordering::Relaxed);
}

pub(super) fn are_unlogged() -> bool {
    !LOGGED.load(Ordering::Relaxed)
}
