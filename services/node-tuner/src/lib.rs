//! Prepares a Kubernetes node for many connections.
//!
//! `audit` and `plan` show how the node differs from a profile. `apply` saves the original values
//! and writes the profile's values, and `restore` writes the original values back. `agent` repeats
//! this in a DaemonSet pod and proves that the node's pods have exclusive CPUs.

mod agent;
mod catalogue;
mod cpus;
mod generate;
mod kubelet;
mod kubernetes;
mod node;
mod profile;
mod proof;
mod report;
mod settings;
mod tree;
mod tuner;

use std::process::ExitCode;

use corelane_service::log::Log;
use corelane_service::process;

use crate::report::State;
use crate::settings::{Command, NAME, Output, Settings};
use crate::tuner::Tuner;

/// Runs the program from its command line, environment and file.
pub fn main() -> ExitCode {
    let settings = match settings::read() {
        Ok(settings) => settings,
        Err(code) => return code,
    };
    let log =
        Log { level: settings.log_level.clone(), format: settings.log_format, ..Log::default() };
    match log.start() {
        Ok((_flush_at_end, _)) => run(settings),
        Err(error) => {
            process::report(NAME, &error);
            ExitCode::FAILURE
        }
    }
}

fn run(settings: Settings) -> ExitCode {
    match &settings.command {
        Command::Agent => agent::run(settings),
        Command::Proof(proof) => proof::run(&settings, proof),
        Command::Audit | Command::Plan => audit(&settings),
        Command::Apply => apply(&settings),
        Command::Restore => restore(&settings),
        Command::Generate(generate) => generate::run(&settings, *generate),
        Command::Knobs => generate::knobs(settings.output),
    }
}

/// Exit code if something differs.
const DIFFERS: u8 = 2;

fn audit(settings: &Settings) -> ExitCode {
    let tuner = Tuner::new(settings);
    let report = tuner.audit();
    match (&settings.command, settings.output) {
        (Command::Plan, Output::Table) => process::print(&report.plan()),
        (_, output) => report.print(output),
    }
    match tuner.unreadable_journal() {
        Some(error) => failed(&error.to_string()),
        None if report.differs() > 0 => ExitCode::from(DIFFERS),
        None => ExitCode::SUCCESS,
    }
}

fn apply(settings: &Settings) -> ExitCode {
    match Tuner::new(settings).apply(false) {
        Ok(report) => {
            report.print(settings.output);
            let done = report.prepared() && report.count(State::Unknown) == 0;
            if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn restore(settings: &Settings) -> ExitCode {
    match Tuner::new(settings).restore() {
        Ok(restored) => {
            process::print(&format!("{} setting(s) restored\n", restored.settings));
            match restored.failed.as_slice() {
                [] => ExitCode::SUCCESS,
                failures => failed(&failures.join("\n")),
            }
        }
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(words: &str) -> ExitCode {
    tracing::error!("{words}");
    ExitCode::FAILURE
}
