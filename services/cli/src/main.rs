//! The command `corelane`.
//!
//! `corelane capacity` predicts how many requests a replica carries within a latency target, and how
//! many replicas a load needs. `corelane check` requests a URL until the reply is the expected one.

mod capacity;
mod check;
mod get;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use corelane_service::flags;

/// Environment variables with these prefixes are settings of the subcommands.
const PREFIXES: [&str; 2] = ["CORELANE_CAPACITY_", "CORELANE_CHECK_"];

/// The name of the program in messages.
const NAME: &str = "corelane";

/// Command line of Corelane
#[derive(Debug, Parser)]
#[command(name = NAME, version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Capacity(Box<capacity::Question>),
    Check(check::Check),
}

fn main() -> ExitCode {
    match flags::parse::<Arguments>(&PREFIXES).map(|arguments| arguments.command) {
        Ok(Command::Capacity(question)) => capacity::run(&question),
        Ok(Command::Check(check)) => check::run(&check),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_is_consistent() {
        Arguments::command().debug_assert();
    }
}
