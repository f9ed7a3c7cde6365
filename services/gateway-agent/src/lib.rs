//! What Envoy needs beside it in a gateway pod.
//!
//! `gateway-agent endpoints` runs beside Envoy and writes the file that names the replicas: what the API
//! server knows of a Service, without an xDS server.
//!
//! `gateway-agent drain` is the pod's `preStop`: Envoy exits the moment it gets SIGTERM and cuts what it
//! is answering, so before that clients must have been sent elsewhere and have their replies.

mod admin;
mod drain;
mod endpoints;
mod logging;
mod settings;

use std::io::Write;
use std::process::ExitCode;

use crate::settings::{Command, Settings};

/// Runs the program: its command line and environment say what to do.
pub fn main() -> ExitCode {
    let Settings { log_format, log_file, command } = match settings::read() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    logging::start(log_format, log_file.as_deref());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => match command {
            Command::Drain(settings) => {
                runtime.block_on(drain::drain(&settings)).map_err(|error| failed("drain", &error))
            }
            Command::Endpoints(settings) => runtime
                .block_on(endpoints::keep(&settings))
                .map_err(|error| failed("endpoints", &error)),
        },
        Err(error) => {
            // Not `eprintln!`, which panics when nobody reads standard error any more.
            let _ = writeln!(std::io::stderr(), "gateway-agent: {error}");
            return ExitCode::FAILURE;
        }
    };
    outcome.map_or_else(|code| code, |()| ExitCode::SUCCESS)
}

fn failed(command: &str, error: &dyn std::error::Error) -> ExitCode {
    tracing::error!("{command}: failed: {error}");
    ExitCode::FAILURE
}
