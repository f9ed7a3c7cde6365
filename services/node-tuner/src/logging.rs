//! Log lines on standard error.

use std::io;

use crate::settings::{LogFormat, Settings};

/// Starts logging.
pub(crate) fn start(settings: &Settings) {
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_target(false)
        // By default a line that cannot be written is reported by `eprintln!`, which panics.
        .log_internal_errors(false)
        .with_max_level(settings.log_level);
    match settings.log_format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
