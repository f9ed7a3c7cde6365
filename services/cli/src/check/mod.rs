//! `corelane check`: requests a URL until the reply is the expected one; the client of `helm test` pods.
//!
//! Linked statically, it resolves names in an image that holds nothing but `/etc/resolv.conf` and
//! `/etc/hosts`: musl always does, glibc has files and DNS built in since 2.34.

mod ask;
mod settings;
mod wanted;

use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, Command};
use tokio::time::{Instant, sleep, timeout_at};

use self::settings::Settings;
pub(crate) use self::settings::command;
use self::wanted::Progress;

/// Runs the subcommand; `command` is the whole program, for its usage errors.
pub(crate) fn run(command: &mut Command, matches: &ArgMatches) -> ExitCode {
    let settings = match Settings::read(command, matches) {
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
            let _ = writeln!(std::io::stderr(), "corelane: {words}");
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
