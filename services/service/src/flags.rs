//! Flags and the environment variables behind them, for programs without a configuration file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Parser};

use crate::{config, process};

/// Reads a program's command line and environment, or returns the exit code: 0 after `--help` and
/// `--version`, 64 after an error, which is printed.
///
/// Variables with one of `prefixes` that belong to no flag are errors, because they are probably
/// misspelt. Those that Kubernetes sets for a Service are ignored, and an empty variable is unset. Words are
/// not case-sensitive.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use corelane_service::flags;
///
/// #[derive(clap::Parser)]
/// struct Arguments {
///     /// Number of steps
///     #[arg(long, env = "DEMO_STEPS", default_value = "3")]
///     steps: u64,
/// }
///
/// fn main() -> ExitCode {
///     match flags::parse::<Arguments>(&["DEMO_"]) {
///         Ok(arguments) => println!("{}", arguments.steps),
///         Err(code) => return code,
///     }
///     ExitCode::SUCCESS
/// }
/// ```
pub fn parse<T: Parser>(prefixes: &[&str]) -> Result<T, ExitCode> {
    let command = T::command();
    let matches = read(&command, prefixes)?;
    T::from_arg_matches(&matches).map_err(|error| exit(error.format(&mut T::command())))
}

/// Like [`parse`], for a command that is not derived.
pub fn read(command: &Command, prefixes: &[&str]) -> Result<ArgMatches, ExitCode> {
    let matches = tolerant(command.clone()).try_get_matches().map_err(exit)?;
    match unknown(command, prefixes, std::env::vars_os()) {
        None => Ok(matches),
        Some(message) => Err(reject(command.clone(), message)),
    }
}

/// A command that ignores empty variables and whose words are not case-sensitive. Its help does not show the values of variables,
/// which may be secrets.
fn tolerant(command: Command) -> Command {
    let of_flag = |flag: Arg| {
        let flag = flag.hide_env_values(true);
        let variable = flag.get_env().and_then(std::env::var_os);
        let flag = match variable.is_some_and(|value| value.is_empty()) {
            true => flag.env(Resettable::Reset),
            false => flag,
        };
        let words = flag.get_action().takes_values();
        if words { flag.ignore_case(true) } else { flag }
    };
    command.mut_args(of_flag).mut_subcommands(tolerant)
}

/// Prints a command line error or the help, and returns the exit code.
pub fn exit(error: clap::Error) -> ExitCode {
    // The reader may have gone.
    let _ = error.print();
    if error.use_stderr() { process::usage() } else { ExitCode::SUCCESS }
}

/// Prints that a value is not allowed, with the usage of the command. Returns exit code 64.
pub fn reject(mut command: Command, message: impl std::fmt::Display) -> ExitCode {
    exit(command.error(ErrorKind::ValueValidation, message))
}

/// A value parser of clap whose errors say what is allowed.
pub fn allowed<T, E: std::fmt::Display>(
    parse: impl Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|allowed| format!("allowed is {allowed}"))
}

/// The error for the first variable with one of these prefixes that belongs to no flag.
fn unknown(
    command: &Command,
    prefixes: &[&str],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<String> {
    let known = variables(command);
    environment.into_iter().find_map(|(name, value)| {
        let name = name.to_string_lossy();
        let value = value.to_string_lossy();
        let foreign = value.is_empty() || config::is_service_link(&name, &value);
        let prefixed = !foreign && prefixes.iter().any(|prefix| name.starts_with(prefix));
        let error = || {
            let known = known.iter().cloned().collect();
            config::unknown(&name, &value, "environment", known)
        };
        (prefixed && !known.contains(&*name)).then(error)
    })
}

/// The variables of all flags of a command and its subcommands.
fn variables(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(clap::Arg::get_env);
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(variables)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variables_of_flags_may_have_the_prefix() {
        let below = Command::new("run").arg(Arg::new("b").long("b").env("DEMO_B"));
        let command =
            Command::new("demo").arg(Arg::new("a").long("a").env("DEMO_A")).subcommand(below);
        let look = |name: &str| unknown(&command, &["DEMO_"], [(name.into(), "1".into())]);
        assert_eq!(look("DEMO_SERVICE_PORT"), None, "Kubernetes sets it");
        assert_eq!((look("DEMO_A"), look("DEMO_B"), look("HOME")), (None, None, None));
        let words = look("DEMO_C").expect("no flag has it");
        let meant = "did you mean DEMO_B? allowed are DEMO_A, DEMO_B";
        assert_eq!(words, format!("DEMO_C = \"1\" (environment): unknown key; {meant}"));
    }
}
