//! Flags and environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, value_parser};

use crate::drain::Drain;
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
}

/// Environment variables with this prefix are settings.
const PREFIX: &str = "GATEWAY_AGENT_";

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Reads the command line and the environment, or says why the program ends here.
pub(crate) fn read() -> Result<Settings, ExitCode> {
    let mut command = command();
    let matches = corelane_cli::read(&command, PREFIX)?;
    let (_, drain) = matches.subcommand().expect("clap demands a command");
    let drain = Drain {
        admin: value(drain, "admin"),
        listener: value(drain, "listener"),
        settle: value(drain, "settle"),
        deadline: value(drain, "deadline"),
    };
    if drain.settle > drain.deadline {
        let (settle, deadline) = (drain.settle, drain.deadline);
        let words = format!("--settle {settle:?} is longer than --deadline {deadline:?}");
        let words = format!("{words}; allowed is at most the deadline");
        return Err(corelane_cli::refuse(command.error(ErrorKind::ValueValidation, words)));
    }
    Ok(Settings {
        log_format: match value::<String>(&matches, "log-format").as_str() {
            "json" => Format::Json,
            _ => Format::Text,
        },
        log_file: matches.get_one("log-file").cloned(),
        command: Command::Drain(drain),
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
        .subcommand(drain())
}

fn drain() -> clap::Command {
    let admin = Arg::new("admin")
        .long("admin")
        .env("GATEWAY_AGENT_ADMIN")
        .value_name("ADDRESS")
        .default_value("127.0.0.1:9901")
        .value_parser(|text: &str| {
            let allowed = "allowed is an IP address and a port, such as 127.0.0.1:9901";
            text.parse::<SocketAddr>().map_err(|_| allowed)
        })
        .help("Envoy's admin interface");
    let listener = Arg::new("listener")
        .long("listener")
        .env("GATEWAY_AGENT_LISTENER")
        .value_name("NAME")
        .default_value("ingress")
        .value_parser(listener_name)
        .help("Statistics prefix of the listener and of its HTTP connections");
    let settle = Arg::new("settle")
        .long("settle")
        .env("GATEWAY_AGENT_SETTLE")
        .value_name("DURATION")
        .default_value("15s")
        .value_parser(corelane_cli::duration(Duration::ZERO, HOUR))
        .help("Wait at least so long: until Services and load balancers send nobody here any more");
    let deadline = Arg::new("deadline")
        .long("deadline")
        .env("GATEWAY_AGENT_DEADLINE")
        .value_name("DURATION")
        .default_value("45s")
        .value_parser(corelane_cli::duration(Duration::ZERO, HOUR))
        .help("Wait at most so long, settle included, until no client is connected");
    clap::Command::new("drain")
        .about("Tell Envoy and its clients that it ends, and wait until nobody needs it")
        .long_about(
            "Tell Envoy and its clients that it ends, and wait until nobody needs it. \
             Exit codes: 0 when it may end, also when the deadline cut something; \
             1 when its admin interface never answered; 64 for a bad flag or variable.",
        )
        .args([admin, listener, settle, deadline])
}

/// A name that may stand in a statistic, and needs no escape in a regular expression.
fn listener_name(text: &str) -> Result<String, &'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("allowed are letters, digits, _ and -"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_fits_together() {
        command().debug_assert();
    }

    #[test]
    fn listener_names_are_plain() {
        assert_eq!(listener_name("in-gress_1"), Ok("in-gress_1".to_owned()));
        for text in ["", "a.b", "a|b", "a&b"] {
            assert!(listener_name(text).is_err(), "{text}");
        }
    }
}
