//! Envoy's sidecar in a gateway pod.
//!
//! `gateway-agent endpoints` writes Envoy's endpoint files from the EndpointSlices of Services,
//! without an xDS server. With `--routes`, it also writes clusters and routes. With `--gateway`, it
//! adds HTTPRoute and GRPCRoute objects.
//!
//! `gateway-agent drain` is the pod's `preStop` hook. Envoy exits immediately on SIGTERM and cuts
//! off requests in flight, so clients must leave before that.

mod admin;
mod credentials;
mod drain;
mod endpoints;
mod keep;
mod route_objects;
mod routes;
mod settings;

use std::process::ExitCode;

use corelane_service::log::Log;
use corelane_service::process;

use crate::settings::{Command, Settings};

const NAME: &str = "gateway-agent";

/// Runs the program with its command line and environment.
pub fn main() -> ExitCode {
    let Settings { log_format: format, log_file: file, command } = match settings::read() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let _flush_at_end = match (Log { format, file, ..Log::default() }).start() {
        Ok((flush, _)) => flush,
        Err(error) => return not_started(&error),
    };
    let outcome = match command {
        Command::Drain(settings) => process::block_on(drain::drain(&settings), false)
            .map(|outcome| outcome.map_err(|error| failed("drain", &error))),
        Command::Endpoints(settings) => process::block_on(keep::keep(&settings), false)
            .map(|outcome| outcome.map_err(|error| failed("endpoints", &error))),
    };
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(code)) => code,
        Err(error) => not_started(&error),
    }
}

fn not_started(error: &std::io::Error) -> ExitCode {
    process::report(NAME, error);
    ExitCode::FAILURE
}

fn failed(command: &str, error: &dyn std::error::Error) -> ExitCode {
    tracing::error!("{command}: failed: {error}");
    ExitCode::FAILURE
}
