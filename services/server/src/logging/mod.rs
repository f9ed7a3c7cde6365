//! Log lines on standard error.

mod control;
mod level;
mod lines;

use std::io::IsTerminal;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use control::{Control, PATH as LEVEL_PATH};
pub(crate) use level::Level;
pub(crate) use lines::trace_id;

use crate::config::LogFormat;
use lines::Lines;

/// Starts logging; what is still to be written is written when the guard is dropped. The level can
/// be changed from now on.
///
/// Lines are written by a thread of their own, and dropped when it falls far behind: a log that
/// nobody reads must not stop a lane.
pub(crate) fn start(level: &Level, format: LogFormat) -> (WorkerGuard, Control) {
    let (filter, handle) = reload::Layer::new(level.targets());
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        // By default a line that cannot be written is reported by `eprintln!`, which panics.
        .log_internal_errors(false)
        .event_format(Lines::new(format, std::io::stderr().is_terminal()));
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    let control = Control::new(level.clone(), move |level| handle.reload(level.targets()).is_ok());
    (guard, control)
}
