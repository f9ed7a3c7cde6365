//! Asks a URL until it is answered as wanted: the client of `helm test` pods.
//!
//! Linked statically, it resolves names in an image that holds nothing but `/etc/resolv.conf` and
//! `/etc/hosts`: musl always does, glibc has files and DNS built in since 2.34.

mod ask;
mod settings;
mod wanted;

use std::io::Write;
use std::process::ExitCode;

use tokio::time::{Instant, sleep, timeout_at};

use crate::settings::Settings;
use crate::wanted::Progress;

/// Runs the program: its command line and environment say what to do.
pub fn main() -> ExitCode {
    let settings = match settings::read() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(check(&settings));
            // A look-up that hangs in its thread must not outlive the deadline.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        // Not `println!`, which panics when nobody reads any more.
        Ok(words) => {
            let _ = writeln!(std::io::stdout(), "{words}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            let _ = writeln!(std::io::stderr(), "corelane-check: {words}");
            ExitCode::FAILURE
        }
    }
}

/// Asks until the answer is as wanted, or says what was seen instead until the deadline.
async fn check(settings: &Settings) -> Result<String, String> {
    let deadline = Instant::now() + settings.deadline;
    let mut progress = Progress::new(&settings.wanted);
    loop {
        if let Ok(reply) = timeout_at(deadline, ask::ask(&settings.url)).await
            && progress.note(reply)
        {
            return Ok(progress.to_string());
        }
        if Instant::now() + settings.interval >= deadline {
            return Err(format!("{} not as wanted: {progress}", settings.url));
        }
        sleep(settings.interval).await;
    }
}
