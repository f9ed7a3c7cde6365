//! Log lines on standard error.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogLevel};

/// Starts logging; what is still to be written is written when the guard is dropped.
///
/// Lines are written by a thread of their own, and dropped when it falls far behind: a log that
/// nobody reads must not stop a lane.
pub(crate) fn start(level: LogLevel, format: LogFormat) -> WorkerGuard {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // These warn about what clients do, as often as a client likes.
    let quiet = level.min(LevelFilter::ERROR);
    let targets = Targets::new().with_default(level);
    let targets = match level {
        LevelFilter::DEBUG | LevelFilter::TRACE => targets,
        _ => targets.with_target("h2", quiet).with_target("hyper", quiet),
    };
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        // By default a line that cannot be written is reported by `eprintln!`, which panics.
        .log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(targets)).init();
    guard
}
