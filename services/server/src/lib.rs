//! The reference service of Corelane, with every workload that the platform is measured with.

mod app;
mod auth;
mod config;
mod docs;
mod faults;
mod files;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod handlers;
mod logging;
mod openapi;
mod per_lane;
mod projects;
mod serve;
mod telemetry;

use std::process::ExitCode;

use corelane_service::config::{ConfigErrors, Invocation};
use corelane_service::process;

use crate::config::{Config, PROGRAM};
use crate::serve::{builder, failed, report};

/// Runs the program with its command line, environment and file.
pub fn main() -> ExitCode {
    // The allocator does not request huge pages (its feature `no_thp`). If the kernel provides them
    // anyway, each of its blocks counts as used in full. Fails harmlessly on kernels without them.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match run() {
        Ok(code) => code,
        Err(errors) => {
            report(&errors);
            process::usage()
        }
    }
}

fn run() -> Result<ExitCode, ConfigErrors> {
    match PROGRAM.read(std::env::args_os(), std::env::vars_os())? {
        Invocation::Print(text) => process::print(&text),
        Invocation::Check(settings) => {
            let config = Config::parse(&settings)?;
            let tls = config.tls()?;
            config.auth()?;
            let valid = builder(&config)?.validate();
            if let Err(error) = valid.and_then(|()| tls.map_or(Ok(()), |tls| tls.check())) {
                return Ok(failed(&error));
            }
            process::print(&settings.describe(PROGRAM.keys));
        }
        Invocation::Run(settings) => return serve::serve(Config::parse(&settings)?),
    }
    Ok(ExitCode::SUCCESS)
}
