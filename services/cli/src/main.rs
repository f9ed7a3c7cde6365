//! The command `corelane`.
//!
//! `corelane new` writes a service and `corelane up` runs it with the platform on this machine;
//! `corelane dashboard` and `corelane top` show that instance. `corelane image` builds its image,
//! `corelane check` requests a URL, and `corelane doctor` checks a cluster. `corelane capacity`
//! predicts the capacity of a replica.

mod capacity;
mod check;
mod checkout;
mod dashboard;
mod doctor;
mod exposition;
mod get;
mod new;
mod platform;
mod shell;
mod top;

use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Args, CommandFactory, Parser, Subcommand};
use corelane_service::{flags, process};

/// Environment variables with these prefixes are settings of subcommands.
const PREFIXES: [&str; 2] = ["CORELANE_CAPACITY_", "CORELANE_CHECK_"];

const NAME: &str = "corelane";

/// The Corelane command line
#[derive(Debug, Parser)]
#[command(name = NAME, version, arg_required_else_help = true, help_template = overview())]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Develop(Develop),
    #[command(flatten)]
    Observe(Observe),
    #[command(flatten)]
    Plan(Plan),
    #[command(flatten)]
    Install(Install),
}

#[derive(Debug, Subcommand)]
enum Develop {
    New(new::New),
    Up(platform::Up),
    /// Stop what `up` started
    #[command(after_help = "Example: corelane down")]
    Down(platform::Running),
    Image(platform::Image),
}

#[derive(Debug, Subcommand)]
enum Observe {
    Dashboard(dashboard::Dashboard),
    Top(top::Top),
    /// Show each process with its state, CPUs and address
    #[command(after_help = "Example: corelane status")]
    Status(platform::Running),
    Logs(platform::Logs),
    Check(check::Check),
}

#[derive(Debug, Subcommand)]
enum Plan {
    Capacity(Box<capacity::Question>),
}

#[derive(Debug, Subcommand)]
enum Install {
    Doctor(doctor::Doctor),
    Completions(Completions),
}

/// Print shell completions
#[derive(Args, Debug)]
#[command(
    after_help = "Example: corelane completions bash > ~/.local/share/bash-completion/completions/corelane"
)]
struct Completions {
    /// Shell to complete for
    shell: clap_complete::Shell,
}

impl Completions {
    fn run(&self) -> ExitCode {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), NAME, &mut script);
        process::print(&String::from_utf8_lossy(&script));
        ExitCode::SUCCESS
    }
}

/// Builds the help of `corelane` itself: clap does not support headings for groups of subcommands.
fn overview() -> StyledStr {
    let groups = [
        ("Develop a service", Develop::augment_subcommands(clap::Command::new(NAME))),
        ("Observe it", Observe::augment_subcommands(clap::Command::new(NAME))),
        ("Plan its capacity", Plan::augment_subcommands(clap::Command::new(NAME))),
        ("Install it", Install::augment_subcommands(clap::Command::new(NAME))),
    ];
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, group) in groups {
        text += &format!("\n{title}:\n");
        for each in group.get_subcommands() {
            let about = each.get_about().map(ToString::to_string).unwrap_or_default();
            text += &format!("  {:<11} {about}\n", each.get_name());
        }
    }
    text += "\nOptions:\n{options}\n\n`corelane COMMAND --help` shows the flags of a command.\n";
    text.into()
}

fn main() -> ExitCode {
    match flags::parse::<Arguments>(&PREFIXES).map(|arguments| arguments.command) {
        Ok(Command::Develop(command)) => match command {
            Develop::New(new) => new::run(&new),
            Develop::Up(up) => up.run(),
            Develop::Down(running) => running.run("down"),
            Develop::Image(image) => image.run(),
        },
        Ok(Command::Observe(command)) => match command {
            Observe::Dashboard(dashboard) => dashboard.run(),
            Observe::Top(top) => top.run(),
            Observe::Status(running) => running.run("status"),
            Observe::Logs(logs) => logs.run(),
            Observe::Check(check) => check::run(&check),
        },
        Ok(Command::Plan(Plan::Capacity(question))) => capacity::run(&question),
        Ok(Command::Install(command)) => match command {
            Install::Doctor(doctor) => doctor.run(),
            Install::Completions(completions) => completions.run(),
        },
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_help_of_each_command_has_an_example() {
        for mut each in Arguments::command().get_subcommands().cloned() {
            let help = each.render_long_help().to_string();
            let example = format!("\nExample: corelane {}", each.get_name());
            assert!(
                help.contains(&example) || help.contains("\nExample: REPLICAS=2 corelane up"),
                "{help}"
            );
        }
    }

    #[test]
    fn the_help_lists_each_command_once() {
        let help = Arguments::command().render_help().to_string();
        // Skips `help`, which clap adds only when it renders.
        for each in Arguments::command().get_subcommands() {
            let name = Some(each.get_name());
            let rows = help.lines().filter(|line| line.split_whitespace().next() == name);
            assert_eq!(rows.count(), 1, "{} in\n{help}", each.get_name());
        }
    }
}
