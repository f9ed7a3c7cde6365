//! The request that this thread is working on.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::clock::Tick;

thread_local! {
    /// When the request whose handler is being polled began, and how long it may take.
    static CURRENT: Cell<Option<(Tick, Duration)>> = const { Cell::new(None) };
}

/// The time by which the request that is being handled must be answered:
/// [`Timeouts::request`](crate::Timeouts::request) after its header came. Then its handler is
/// dropped. `None` outside a handler, such as in a task that the handler spawned.
///
/// A handler that calls other services passes on what is left of it, and one that computes for
/// long looks at it now and then: nothing can interrupt code that does not wait.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// async fn handler() -> String {
///     let left = corelane::deadline().map(|at| at.saturating_duration_since(Instant::now()));
///     format!("{:?} left", left.unwrap_or(Duration::MAX))
/// }
/// assert_eq!(corelane::deadline(), None);
/// ```
pub fn deadline() -> Option<Instant> {
    CURRENT.get().and_then(|(begun, allowed)| Instant::from(begun).checked_add(allowed))
}

/// Runs `poll`, which must not panic, as a part of the request that began at `begun`.
pub(crate) fn within<T>(begun: Tick, allowed: Duration, poll: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(Some((begun, allowed)));
    let result = poll();
    CURRENT.set(before);
    result
}
