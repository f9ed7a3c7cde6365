//! Flags and their environment variables, for programs without a configuration file.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::{Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, Parser};

use crate::{config, process};

/// Parses a program's command line and environment, or returns the exit code: 0 after `--help` and
/// `--version`, 64 after errors, all of which are printed.
///
/// Variables that start with one of `prefixes` but belong to no flag are errors, because they are
/// probably misspelt. Variables that Kubernetes sets for a Service are ignored, and empty variables
/// count as unset. Words are not case-sensitive.
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
    T::from_arg_matches(&matches).map_err(|error| exit_all(vec![error], command))
}

/// Like [`parse`], for a command that is not derived.
pub fn read(command: &Command, prefixes: &[&str]) -> Result<ArgMatches, ExitCode> {
    let misspelt = unknown(command, prefixes, std::env::vars_os());
    let mut errors = match parse_all(tolerant(command.clone()), std::env::args_os().collect()) {
        Ok(matches) if misspelt.is_empty() => return Ok(matches),
        Ok(_) => Vec::new(),
        Err(errors) => errors,
    };
    let misspelt = misspelt.into_iter();
    errors.splice(0..0, misspelt.map(|it| command.clone().error(ErrorKind::ValueValidation, it)));
    Err(exit_all(errors, command.clone()))
}

/// After a wrong value or an unknown flag, continues without that argument to find all errors.
fn parse_all(
    mut command: Command,
    mut arguments: Vec<OsString>,
) -> Result<ArgMatches, Vec<clap::Error>> {
    let (mut errors, mut seen) = (Vec::new(), HashSet::new());
    // Only after this call do errors show the full syntax of flags.
    command.build();
    loop {
        let error = match command.clone().try_get_matches_from(&arguments) {
            Ok(matches) if errors.is_empty() => return Ok(matches),
            Ok(_) => return Err(errors),
            Err(error) => error,
        };
        let wrong = error.get(ContextKind::InvalidArg).map(ToString::to_string);
        let wrong = wrong.unwrap_or_default();
        let is_last = match error.kind() {
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                command = with_any_value(command, &wrong);
                false
            }
            ErrorKind::UnknownArgument => {
                let name =
                    |given: &OsString| given.to_string_lossy().split('=').next() == Some(&wrong);
                arguments.retain(|given| !name(given) && **given != *wrong);
                false
            }
            _ => true,
        };
        // The argument after an unknown flag may be its value.
        let is_value = !errors.is_empty()
            && matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand)
            && !wrong.starts_with('-');
        let is_known = !seen.insert(wrong);
        if !is_value && !is_known {
            errors.push(error);
        }
        if is_last || is_known {
            return Err(errors);
        }
    }
}

/// The command without this flag's bounds.
fn with_any_value(command: Command, wrong: &str) -> Command {
    let of_flag = |flag: Arg| match flag.to_string() == wrong {
        true => flag.value_parser(ValueParser::os_string()),
        false => flag,
    };
    command.mut_args(of_flag).mut_subcommands(|command| with_any_value(command, wrong))
}

fn exit_all(errors: Vec<clap::Error>, command: Command) -> ExitCode {
    if let [message] = &*errors
        && !message.use_stderr()
    {
        // The reader may be gone.
        let _ = message.print();
        return ExitCode::SUCCESS;
    }
    let mut command = selected(command, std::env::args_os().skip(1));
    for mut error in errors {
        suggest(&mut error, &command);
        let text = error.render().to_string();
        let ends = ["\n\nUsage:", "\n\nFor more information"].map(|end| text.find(end));
        let end = ends.into_iter().flatten().min().unwrap_or(text.len());
        let _ = writeln!(std::io::stderr(), "{}\n", text[..end].trim_end());
    }
    let usage = command.render_usage();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = writeln!(std::io::stderr(), "{usage}\n\nFor more information, try '{name} --help'.");
    process::usage()
}

fn selected(mut command: Command, arguments: impl Iterator<Item = OsString>) -> Command {
    command.build();
    for argument in arguments {
        if let Some(found) = command.find_subcommand(argument) {
            command = found.clone();
        }
    }
    command
}

/// Suggests a subcommand. clap suggests nothing for short words with two swapped letters.
fn suggest(error: &mut clap::Error, command: &Command) {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return;
    }
    let names = command.get_subcommands().map(|each| each.get_name().to_owned());
    let near = names.map(|name| (strsim::osa_distance(wrong, &name), name));
    if let Some((1..=2, name)) = near.min() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![name]));
    }
}

/// Ignores empty variables and the letter case of values. The help hides the values of variables,
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

/// Reports a wrong value with the subcommand's usage. Returns exit code 64.
pub fn reject(mut command: Command, message: impl std::fmt::Display) -> ExitCode {
    exit_all(vec![command.error(ErrorKind::ValueValidation, message)], command)
}

/// Creates a clap value parser with errors that describe the expected value.
pub fn allowed<T, E: std::fmt::Display>(
    parse: impl Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| parse(text).map_err(|allowed| format!("expected {allowed}"))
}

fn unknown(
    command: &Command,
    prefixes: &[&str],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    let known: Vec<_> = variables(command).into_iter().collect();
    let errors = environment.into_iter().filter_map(|(name, value)| {
        let name = name.to_string_lossy();
        let value = value.to_string_lossy();
        let foreign = value.is_empty() || config::is_service_link(&name, &value);
        let prefixed = !foreign && prefixes.iter().any(|prefix| name.starts_with(prefix));
        let error = || config::unknown(&name, &value, "environment", &known);
        (prefixed && known.iter().all(|known| *known != name)).then(error)
    });
    errors.collect()
}

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
        for foreign in ["DEMO_SERVICE_PORT", "DEMO_A", "DEMO_B", "HOME"] {
            assert!(look(foreign).is_empty(), "{foreign}");
        }
        let meant = "unknown key; did you mean DEMO_B?";
        assert_eq!(look("DEMO_C"), [format!("DEMO_C = \"1\" (environment): {meant}")]);
    }

    #[test]
    fn all_errors_of_a_command_line_are_found() {
        let number = |id: &'static str| Arg::new(id).long(id).value_parser(clap::value_parser!(u8));
        let command = Command::new("demo")
            .arg(number("a"))
            .subcommand(Command::new("run").arg(number("b")).arg(number("c")));
        let parse = |line: &str| {
            let found = parse_all(command.clone(), line.split(' ').map(OsString::from).collect());
            let errors = found.err().unwrap_or_default().into_iter();
            errors
                .map(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(parse("demo --a 1 run --b 2"), [""; 0]);
        assert_eq!(
            parse("demo --a x run --d 1 --b=y --e=z --c 999"),
            [
                "error: unexpected argument '--d' found",
                "error: invalid value 'y' for '--b <b>': invalid digit found in string",
                "error: unexpected argument '--e' found",
                "error: invalid value '999' for '--c <c>': 999 is not in 0..=255",
                "error: invalid value 'x' for '--a <a>': invalid digit found in string",
            ]
        );
        assert_eq!(parse("demo rum").len(), 1);
    }

    #[test]
    fn a_misspelt_subcommand_gets_a_tip() {
        let command = Command::new("demo").subcommand(Command::new("new").arg(Arg::new("to")));
        let wrong = command.clone().try_get_matches_from(["demo", "nwe"]);
        let mut error = wrong.expect_err("no such subcommand");
        suggest(&mut error, &command);
        let tip = "tip: a similar subcommand exists: 'new'";
        assert!(error.to_string().contains(tip), "{error}");
        let mut chosen = selected(command, ["new", "x"].map(OsString::from).into_iter());
        assert_eq!(chosen.render_usage().to_string(), "Usage: demo new [to]");
    }
}
