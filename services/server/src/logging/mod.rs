//! Log lines on standard error.

mod control;
mod level;
mod lines;
mod writer;

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

pub(crate) use control::{Control, PATH as LEVEL_PATH};
pub(crate) use level::Level;
pub(crate) use lines::trace_id;
pub(crate) use writer::Flush;

use crate::config::LogFormat;
use lines::Lines;

/// Starts logging; what is still to be written is written when [`Flush`] is dropped. The level can
/// be changed from now on.
pub(crate) fn start(level: &Level, format: LogFormat) -> io::Result<(Flush, Control)> {
    let (filter, handle) = reload::Layer::new(level.targets());
    let (writer, flush) = writer::start(io::stderr())?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        // By default a line that cannot be written is reported by `eprintln!`, which panics.
        .log_internal_errors(false)
        .event_format(Lines::new(format, io::stderr().is_terminal()));
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    let control = Control::new(level.clone(), move |level| handle.reload(level.targets()).is_ok());
    Ok((flush, control))
}
