//! Flags and environment.

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command};
use corelane_service::{duration, number, refuse};
use hyper::StatusCode;
use hyper::header::HeaderName;

use super::ask::Url;
use super::wanted::Wanted;

/// Everything that the program is told.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) url: Url,
    pub(crate) wanted: Wanted,
    pub(crate) deadline: Duration,
    pub(crate) interval: Duration,
}

const HOUR: Duration = Duration::from_secs(60 * 60);

impl Settings {
    /// Reads the flags, or reports what is wrong with them and how to exit.
    pub(crate) fn read(command: &mut Command, matches: &ArgMatches) -> Result<Self, ExitCode> {
        let distinct = value::<u64>(matches, "distinct") as usize;
        let header = matches.get_one::<HeaderName>("header").cloned();
        if header.is_none() && distinct != 1 {
            let words =
                format!("--distinct {distinct} counts values of a header: name it with --header");
            return Err(refuse(command.error(ErrorKind::MissingRequiredArgument, words)));
        }
        Ok(Settings {
            url: value(matches, "url"),
            wanted: Wanted {
                status: value(matches, "status"),
                header: header.map(|name| (name, distinct)),
                body: matches.get_one("body").cloned(),
            },
            deadline: value(matches, "deadline"),
            interval: value(matches, "interval"),
        })
    }
}

/// The value of a flag that always has one.
fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
    matches.get_one::<T>(name).cloned().expect("the flag has a value")
}

/// The flags of `corelane check`.
pub(crate) fn command() -> Command {
    let url = Arg::new("url")
        .value_name("URL")
        .env("CORELANE_CHECK_URL")
        .required(true)
        .value_parser(Url::parse)
        .help("What to get: http://HOST[:PORT][/PATH]");
    let status = Arg::new("status")
        .long("status")
        .env("CORELANE_CHECK_STATUS")
        .value_name("STATUS")
        .default_value("200")
        .value_parser(|text: &str| {
            text.parse::<StatusCode>().map_err(|_| "allowed is a whole number from 100 to 999")
        })
        .help("The status that is wanted");
    let header = Arg::new("header")
        .long("header")
        .env("CORELANE_CHECK_HEADER")
        .value_name("NAME")
        .value_parser(|text: &str| {
            text.parse::<HeaderName>().map_err(|_| "allowed is the name of an HTTP header")
        })
        .help("A header that the reply must have");
    let distinct = Arg::new("distinct")
        .long("distinct")
        .env("CORELANE_CHECK_DISTINCT")
        .value_name("NUMBER")
        .default_value("1")
        .value_parser(number(1, 1000))
        .help("How many different values of the header must be seen, each on a new connection");
    let body = Arg::new("body")
        .long("body")
        .env("CORELANE_CHECK_BODY")
        .value_name("TEXT")
        .help("A text that the reply's body must hold");
    Command::new("check")
        .about("Request a URL until the reply is the expected one")
        .after_help(
            "A flag wins over the environment. Exit codes: 0 as wanted, 1 not until the deadline, \
             64 for a bad flag or variable.",
        )
        .args([url, status, header, distinct, body])
        .args(times())
}

fn times() -> [Arg; 2] {
    let deadline = Arg::new("deadline")
        .long("deadline")
        .env("CORELANE_CHECK_DEADLINE")
        .value_name("DURATION")
        .default_value("60s")
        .value_parser(duration(Duration::from_millis(1), HOUR))
        .help("How long to go on asking");
    let interval = Arg::new("interval")
        .long("interval")
        .env("CORELANE_CHECK_INTERVAL")
        .value_name("DURATION")
        .default_value("100ms")
        .value_parser(duration(Duration::from_millis(1), HOUR))
        .help("Pause between two requests");
    [deadline, interval]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_fits_together() {
        command().debug_assert();
    }
}
