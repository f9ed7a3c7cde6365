//! The command `corelane`.
//!
//! `corelane capacity` predicts how many requests a replica carries within a latency target, and how
//! many replicas a load needs. `corelane check` requests a URL until the reply is the expected one.

mod capacity;
mod check;

use std::process::ExitCode;

use clap::Command;

/// Environment variables with these prefixes are settings of the subcommands.
const PREFIXES: [&str; 2] = ["CORELANE_CAPACITY_", "CORELANE_CHECK_"];

fn main() -> ExitCode {
    let mut command = Command::new("corelane")
        .about("Command line of Corelane")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([capacity::command(), check::command()]);
    let matches = match corelane_service::read(&command, &PREFIXES) {
        Ok(matches) => matches,
        Err(code) => return code,
    };
    match matches.subcommand() {
        Some(("capacity", matches)) => capacity::run(&mut command, matches),
        Some(("check", matches)) => check::run(&mut command, matches),
        _ => unreachable!("clap requires one of the subcommands"),
    }
}
