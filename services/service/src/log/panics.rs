//! Logs panics instead of writing text to standard error.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::thread;

use super::writer::Written;

/// Returns the current request's route on this thread.
pub type Route = fn() -> Option<String>;

/// Logs every panic where it happens, because the code that catches it does not know the location.
pub(super) fn log(lines: Written, route: Option<Route>) {
    std::panic::set_hook(Box::new(move |panic| {
        line(panic, route.and_then(|route| route()));
        // The process may end right after this, for example because of a second panic.
        lines.wait();
    }));
}

fn line(panic: &PanicHookInfo<'_>, route: Option<String>) {
    // As in the default hook, RUST_BACKTRACE enables it.
    let backtrace = Backtrace::capture();
    let captured = backtrace.status() == BacktraceStatus::Captured;
    let backtrace = captured.then(|| backtrace.to_string());
    let text = panic.payload().downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str));
    tracing::error!(
        panic = text.unwrap_or("without a message"),
        place = panic.location().map(tracing::field::display),
        thread = thread::current().name(),
        route,
        backtrace,
        "panicked"
    );
}
