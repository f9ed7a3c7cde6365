//! Flags and environment.

mod drain;
mod endpoints;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, value_parser};

use crate::drain::Drain;
use crate::endpoints::Endpoints;
use crate::logging::Format;

/// Everything that the program is told.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) log_format: Format,
    pub(crate) log_file: Option<PathBuf>,
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Drain(Drain),
    Endpoints(Endpoints),
}

/// Environment variables with this prefix are settings.
const PREFIX: &str = "GATEWAY_AGENT_";

/// Reads the command line and the environment, or says why the program ends here.
pub(crate) fn read() -> Result<Settings, ExitCode> {
    let mut command = command();
    let matches = corelane_service::read(&command, &[PREFIX])?;
    let chosen = match matches.subcommand().expect("clap demands a command") {
        ("endpoints", flags) => Command::Endpoints(endpoints::read(flags)),
        (_, flags) => Command::Drain(drain::read(flags, &mut command)?),
    };
    Ok(Settings {
        log_format: match value::<String>(&matches, "log-format").as_str() {
            "json" => Format::Json,
            _ => Format::Text,
        },
        log_file: matches.get_one("log-file").cloned(),
        command: chosen,
    })
}

/// The value of a flag that has a default.
fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one::<T>(name).cloned().expect("the flag has a default")
}

fn command() -> clap::Command {
    let log_format = Arg::new("log-format")
        .long("log-format")
        .env("GATEWAY_AGENT_LOG_FORMAT")
        .default_value("text")
        .value_parser(PossibleValuesParser::new(["text", "json"]))
        .help("Log lines as text or JSON, on standard error");
    let log_file = Arg::new("log-file")
        .long("log-file")
        .env("GATEWAY_AGENT_LOG_FILE")
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("Log there, too; /proc/1/fd/2 is the log of the container that a preStop runs in");
    clap::Command::new("gateway-agent")
        .version(env!("CARGO_PKG_VERSION"))
        .about("What Envoy needs beside it in a gateway pod")
        .after_help("A flag wins over the environment.")
        .subcommand_required(true)
        .args([log_format.global(true), log_file.global(true)])
        .subcommands([drain::command(), endpoints::command()])
}

/// A parser of an address to connect to or to listen on.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "allowed is an IP address and a port, such as 127.0.0.1:9901")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_fits_together() {
        command().debug_assert();
    }
}
