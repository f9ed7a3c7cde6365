//! Flags of `drain`.

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches};

use super::{address, value};
use crate::drain::Drain;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// What the flags say. The command is that of the whole program, for words on what is wrong.
pub(super) fn read(flags: &ArgMatches, command: &mut clap::Command) -> Result<Drain, ExitCode> {
    let listeners = flags.get_many::<String>("listener").expect("the flag has a default");
    let drain = Drain {
        admin: value(flags, "admin"),
        listeners: listeners.cloned().collect(),
        settle: value(flags, "settle"),
        deadline: value(flags, "deadline"),
    };
    if drain.settle > drain.deadline {
        let (settle, deadline) = (drain.settle, drain.deadline);
        let words = format!("--settle {settle:?} is longer than --deadline {deadline:?}");
        let words = format!("{words}; allowed is at most the deadline");
        return Err(corelane_service::refuse(command.error(ErrorKind::ValueValidation, words)));
    }
    Ok(drain)
}

/// The command line of `drain`.
pub(super) fn command() -> clap::Command {
    let admin = Arg::new("admin")
        .long("admin")
        .env("GATEWAY_AGENT_ADMIN")
        .value_name("ADDRESS")
        .default_value("127.0.0.1:9901")
        .value_parser(address)
        .help("Envoy's admin interface");
    let listener = Arg::new("listener")
        .long("listener")
        .env("GATEWAY_AGENT_LISTENER")
        .value_name("NAME")
        .default_value("ingress")
        .value_parser(listener_name)
        .value_delimiter(',')
        .action(ArgAction::Append)
        .help("Statistics prefix of a listener and of its HTTP connections; may be given again");
    let settle = Arg::new("settle")
        .long("settle")
        .env("GATEWAY_AGENT_SETTLE")
        .value_name("DURATION")
        .default_value("15s")
        .value_parser(corelane_service::duration(Duration::ZERO, HOUR))
        .help("Wait at least so long: until Services and load balancers send nobody here any more");
    let deadline = Arg::new("deadline")
        .long("deadline")
        .env("GATEWAY_AGENT_DEADLINE")
        .value_name("DURATION")
        .default_value("45s")
        .value_parser(corelane_service::duration(Duration::ZERO, HOUR))
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
    fn listener_names_are_plain() {
        assert_eq!(listener_name("in-gress_1"), Ok("in-gress_1".to_owned()));
        for text in ["", "a.b", "a|b", "a&b"] {
            assert!(listener_name(text).is_err(), "{text}");
        }
    }
}
