//! Whether the library logs panics of handlers.

use std::sync::atomic::{AtomicBool, Ordering};

static LOGGED: AtomicBool = AtomicBool::new(false);

/// Tells the library that the program's panic hook logs each panic, with [`route`](crate::route)
/// and [`request_id`](crate::request_id). The library then does not log a handler's panic again.
pub fn panics_are_logged() {
    LOGGED.store(true, Ordering::Relaxed);
}

/// Whether the library has to log panics.
pub(super) fn are_unlogged() -> bool {
    !LOGGED.load(Ordering::Relaxed)
}
