//! Whether the library logs panics of handlers.

use std::sync::atomic::{AtomicBool, Ordering};

static LOGGED: AtomicBool = AtomicBool::new(false);

/// Tells the library that the panic hook of the program logs each panic, with [`route`](crate::route) and
/// [`request_id`](crate::request_id). Then it does not log once more that a handler panicked.
pub fn panics_are_logged() {
    LOGGED.store(true, Ordering::Relaxed);
}

/// Whether nobody else logs a panic.
pub(super) fn are_unlogged() -> bool {
    !LOGGED.load(Ordering::Relaxed)
}
