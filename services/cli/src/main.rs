//! The command `corelane`.
//!
//! `corelane capacity` predicts how many requests a replica carries within a latency target, and how
//! many replicas a load needs. `corelane check` requests a URL until the reply is the expected one.
//! `corelane new` writes a service, and `corelane up` runs it with the platform on this machine. `corelane dashboard` and
//! `corelane top` show that, on a page and in the terminal. `corelane image` builds the image.

mod capacity;
mod check;
mod checkout;
mod dashboard;
mod exposition;
mod get;
mod new;
mod platform;
mod top;

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
    New(new::New),
    Up(platform::Up),
    /// Stop what `up` started
    Down(platform::Running),
    /// Show every process, its state, CPUs and address
    Status(platform::Running),
    Logs(platform::Logs),
    Dashboard(dashboard::Dashboard),
    Top(top::Top),
    Image(platform::Image),
    Capacity(Box<capacity::Question>),
    Check(check::Check),
}

fn main() -> ExitCode {
    match flags::parse::<Arguments>(&PREFIXES).map(|arguments| arguments.command) {
        Ok(Command::New(new)) => new::run(&new),
        Ok(Command::Up(up)) => up.run(),
        Ok(Command::Down(running)) => running.run("down"),
        Ok(Command::Status(running)) => running.run("status"),
        Ok(Command::Logs(logs)) => logs.run(),
        Ok(Command::Dashboard(dashboard)) => dashboard.run(),
        Ok(Command::Top(top)) => top.run(),
        Ok(Command::Image(image)) => image.run(),
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
