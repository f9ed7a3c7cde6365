//! Flags and the environment variables behind them. An error says what is allowed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command};

/// Bad usage or configuration (sysexits.h, EX_USAGE).
const EXIT_USAGE: u8 = 64;

/// Reads a program's command line and environment, or says why it ends here.
///
/// Variables that begin with one of `prefixes` but belong to no flag are errors: they are misspelt flags.
/// The exit code is that of `--help` and `--version`, or 64.
pub fn read(command: &Command, prefixes: &[&str]) -> Result<ArgMatches, ExitCode> {
    let matches = command.clone().try_get_matches().map_err(refuse)?;
    match unknown(command, prefixes, std::env::vars_os()) {
        None => Ok(matches),
        Some(words) => Err(refuse(command.clone().error(ErrorKind::UnknownArgument, words))),
    }
}

/// Says what is wrong with the command line, or what it asked to be told, and how to exit.
pub fn refuse(words: clap::Error) -> ExitCode {
    // Nobody may read it any more.
    let _ = words.print();
    if words.use_stderr() { ExitCode::from(EXIT_USAGE) } else { ExitCode::SUCCESS }
}

/// Words on the first variable with one of these prefixes that no flag has.
fn unknown(
    command: &Command,
    prefixes: &[&str],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<String> {
    let known = variables(command);
    environment.into_iter().find_map(|(name, value)| {
        let name = name.to_string_lossy();
        let strange =
            prefixes.iter().any(|prefix| name.starts_with(prefix)) && !known.contains(&*name);
        let allowed = || known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        strange.then(|| format!("{name} = {value:?}: unknown variable; allowed are {}", allowed()))
    })
}

/// The variables of all flags of a command and those below it.
fn variables(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(clap::Arg::get_env);
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

/// A parser of durations with a unit, in bounds.
pub fn duration(
    min: Duration,
    max: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| match humantime::parse_duration(text) {
        Ok(duration) if (min..=max).contains(&duration) => Ok(duration),
        _ => Err(format!(
            "allowed is a duration with its unit (ms, s, m, h) from {} to {}",
            humantime::format_duration(min),
            humantime::format_duration(max)
        )),
    }
}

/// A parser of whole numbers, in bounds.
pub fn number(
    min: u64,
    max: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("allowed is a whole number from {min} to {max}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn durations_need_a_unit_and_have_bounds() {
        let parse = duration(Duration::ZERO, Duration::from_secs(60));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1m"), Ok(Duration::from_secs(60)));
        for text in ["30", "61s", "-1s", "", "1y"] {
            let error = parse(text).expect_err(text);
            assert!(error.ends_with("with its unit (ms, s, m, h) from 0s to 1m"), "{error}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        let parse = number(1, 9);
        assert_eq!((parse("1"), parse("9")), (Ok(1), Ok(9)));
        for text in ["0", "10", "-1", "1.5", ""] {
            assert_eq!(parse(text), Err("allowed is a whole number from 1 to 9".to_owned()));
        }
    }

    #[test]
    fn only_the_variables_of_flags_may_have_the_prefix() {
        let below = Command::new("run").arg(Arg::new("b").long("b").env("DEMO_B"));
        let command =
            Command::new("demo").arg(Arg::new("a").long("a").env("DEMO_A")).subcommand(below);
        let look = |name: &str| unknown(&command, &["DEMO_"], [(name.into(), "1".into())]);
        assert_eq!((look("DEMO_A"), look("DEMO_B"), look("HOME")), (None, None, None));
        let words = look("DEMO_C").expect("no flag has it");
        assert_eq!(words, "DEMO_C = \"1\": unknown variable; allowed are DEMO_A, DEMO_B");
    }
}
