//! Log lines on standard error, and in a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::fmt::writer::{BoxMakeWriter, MakeWriterExt};

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Starts logging. A file that cannot be written is a warning: nothing depends on it.
pub(crate) fn start(format: Format, file: Option<&Path>) {
    let opened = file.map(|path| open(path).map_err(|error| (path, error)));
    let (writer, failed) = match opened {
        None => (BoxMakeWriter::new(io::stderr), None),
        Some(Ok(file)) => (BoxMakeWriter::new(Mutex::new(file).and(io::stderr)), None),
        Some(Err(error)) => (BoxMakeWriter::new(io::stderr), Some(error)),
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false)
        // By default a line that cannot be written is reported by `eprintln!`, which panics.
        .log_internal_errors(false);
    match format {
        Format::Text => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    if let Some((path, error)) = failed {
        tracing::warn!("log file {} is not written: {error}", path.display());
    }
}

/// Appends: a log of others is not to be emptied.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}
