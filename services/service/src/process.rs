//! Exit codes, signals, output, and a runtime for small programs.

use std::fmt::Display;
use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code for a bad command line or configuration (sysexits.h, EX_USAGE).
pub const EXIT_USAGE: u8 = 64;

/// [`EXIT_USAGE`] as an `ExitCode`.
pub fn usage() -> ExitCode {
    ExitCode::from(EXIT_USAGE)
}

/// Writes text to standard output. Unlike `print!`, it does not panic if the reader is gone.
pub fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

/// Writes `program: line` to standard error for each line of an error. Unlike `eprintln!`, it does
/// not panic if the reader is gone.
pub fn report(program: &str, error: &dyn Display) {
    for line in error.to_string().lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(io::stderr(), "{program}: {line}");
    }
}

/// Runs a future on a new runtime on this thread.
///
/// Afterwards it waits for running blocking tasks, unless `detach` is set.
///
/// # Errors
///
/// The runtime cannot be created.
pub fn block_on<F: Future>(future: F, detach: bool) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let output = runtime.block_on(future);
    if detach {
        runtime.shutdown_background();
    }
    Ok(output)
}

/// Receives SIGTERM and SIGINT as soon as it has been created.
///
/// ```no_run
/// use corelane_service::process::{self, Termination};
///
/// process::block_on(
///     async {
///         let mut termination = Termination::new()?;
///         termination.wait().await;
///         Ok::<_, std::io::Error>(())
///     },
///     false,
/// )??;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Termination {
    terminate: Signal,
    interrupt: Signal,
}

impl Termination {
    /// Installs signal handlers, so that the signals no longer terminate the process.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for the next signal.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
