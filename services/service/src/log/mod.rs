//! Log lines on standard error, as text or JSON.
//!
//! A separate thread writes the lines, so that a blocked log does not stop the program.

#[cfg(feature = "server")]
mod control;
mod level;
mod lines;
mod panics;
#[cfg(feature = "server")]
mod service;
mod writer;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::reload;

#[cfg(feature = "server")]
pub(crate) use control::{Control, PATH as LEVEL_PATH};
pub use level::Level;
pub use lines::Context;
pub use panics::Route;
#[cfg(feature = "server")]
pub(crate) use service::{Logging, start, trace_id};
pub use writer::Flush;

use lines::Lines;

/// Log line format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One line of text per message.
    #[default]
    Text,
    /// One JSON object per message.
    Json,
}

impl Format {
    /// The formats and their names in the settings.
    pub const WORDS: &[(&str, Self)] = &[("text", Format::Text), ("json", Format::Json)];
}

/// Log settings.
///
/// ```
/// use corelane_service::log::{Format, Log};
///
/// let log = Log { format: Format::Json, ..Log::default() };
/// let (_written_at_end, _level) = log.start()?;
/// tracing::info!(port = 8080, "listening");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Minimum level of messages.
    pub level: Level,
    /// Line format.
    pub format: Format,
    /// An additional file for the lines. Failing to open it only causes a warning.
    pub file: Option<PathBuf>,
    /// Whether lines name their module.
    pub targets: bool,
    /// Adds fields to each line.
    pub context: Option<Context>,
    /// Returns the route that a panic's log line names.
    pub route: Option<Route>,
}

impl Log {
    /// Starts logging, once per process. Dropping [`Flush`] writes the remaining lines. Also logs
    /// records of the `log` crate, unless the program has installed a logger for them, and each
    /// panic with its message and location, plus a backtrace if `RUST_BACKTRACE` is set.
    ///
    /// # Errors
    ///
    /// The writer thread cannot be started. [`io::ErrorKind::AlreadyExists`] means that the program
    /// has installed its own `tracing` subscriber, which stays.
    pub fn start(&self) -> io::Result<(Flush, Handle)> {
        let (filter, handle) = reload::Layer::new(self.level.targets());
        let opened = self.file.as_deref().map(append).transpose();
        let (out, failed): (Box<dyn Write + Send>, _) = match opened {
            Ok(Some(file)) => (Box::new(Both(file)), None),
            Ok(None) => (Box::new(io::stderr()), None),
            Err(error) => (Box::new(io::stderr()), Some(error)),
        };
        let ansi = self.format == Format::Text && self.file.is_none() && io::stderr().is_terminal();
        let (writer, flush) = writer::start(out)?;
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            // This setting also applies to the fields of spans.
            .with_ansi(ansi)
            // By default, a failed write is reported through `eprintln!`, which could itself panic.
            .log_internal_errors(false)
            .event_format(Lines::new(self.format, self.targets, ansi, self.context));
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(filter));
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|error| io::Error::new(io::ErrorKind::AlreadyExists, error))?;
        // The call fails only if there already is a logger.
        let _ = tracing_log::LogTracer::init();
        panics::log(flush.written(), self.route);
        if let Some(error) = failed {
            tracing::warn!("cannot write to the log file {error}");
        }
        Ok((flush, Handle(handle)))
    }
}

/// Changes the level of a running log.
#[derive(Clone, Debug)]
pub struct Handle(reload::Handle<Targets, tracing_subscriber::Registry>);

impl Handle {
    /// Returns whether setting the level succeeded.
    pub fn set(&self, level: &Level) -> bool {
        self.0.reload(level.targets()).is_ok()
    }
}

/// Appends, because other programs may log to the same file.
fn append(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Writes to a file and to standard error. An error in one destination does not affect the other.
struct Both(File);

impl Write for Both {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(line);
        io::stderr().write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
