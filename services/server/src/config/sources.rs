//! Where settings come from: a TOML file, then the environment, then flags; the last wins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use toml::Value;

use super::schema::{KEYS, Key};
use super::{ConfigErrors, Origin, Setting};

/// What was said about each key, by its name.
#[derive(Debug, Default)]
pub(crate) struct Settings(pub(super) BTreeMap<&'static str, Setting>);

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Run with these settings.
    Run(Settings),
    /// Validate these settings and exit.
    Check(Settings),
    /// Print this text (help or version) and exit.
    Print(String),
}

/// Environment variables with this prefix are settings.
const PREFIX: &str = "CORELANE_";

/// The variable that names the file, as `--config` does.
const FILE_VARIABLE: &str = "CORELANE_CONFIG";

/// Reads the command line, the environment and the file that they name.
pub(crate) fn read(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Invocation, ConfigErrors> {
    read_with(arguments, environment, |path| std::fs::read_to_string(path))
}

/// As [`read`], with `open` to get the text of a file.
pub(crate) fn read_with(
    arguments: impl IntoIterator<Item = OsString>,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    open: impl Fn(&str) -> io::Result<String>,
) -> Result<Invocation, ConfigErrors> {
    let matches = match command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let text = error.render().to_string();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Invocation::Print(text)),
                _ => Err(ConfigErrors(vec![text.trim_start_matches("error: ").to_owned()])),
            };
        }
    };
    let variables: BTreeMap<String, String> = environment
        .into_iter()
        .map(|(name, value)| (lossy(name), lossy(value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();

    let mut settings = Settings::default();
    let mut errors = Vec::new();
    let file = matches.get_one::<String>("config").or_else(|| variables.get(FILE_VARIABLE));
    if let Some(path) = file {
        settings.add_file(path, open(path), &mut errors);
    }
    settings.add_environment(&variables, &mut errors);
    for key in KEYS {
        if let Some(text) = matches.get_one::<String>(key.name) {
            settings.set(key, text.clone(), Origin::Flag(format!("--{}", key.flag())));
        }
    }
    match errors.is_empty() {
        false => Err(ConfigErrors(errors)),
        true if matches.get_flag("check") => Ok(Invocation::Check(settings)),
        true => Ok(Invocation::Run(settings)),
    }
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn command() -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help(format!("TOML file with any of the keys below [environment: {FILE_VARIABLE}]"));
    let check = Arg::new("check")
        .long("check")
        .action(ArgAction::SetTrue)
        .help("Validate the configuration, show it with where each value came from, and exit");
    let keys = KEYS.iter().map(|key| {
        let default = if key.default.is_empty() { "none" } else { key.default };
        let (help, variable) = (key.help, key.variable());
        Arg::new(key.name)
            .long(key.flag())
            .value_name("VALUE")
            // So that the error names the key's bounds, not an unknown flag `-1`.
            .allow_negative_numbers(true)
            .help(format!("{help} [default: {default}] [environment: {variable}]"))
    });
    Command::new("corelane-server")
        .version(env!("CARGO_PKG_VERSION"))
        .about("The reference service of Corelane: HTTP on lanes, one per CPU")
        .after_help("A flag wins over the environment, the environment over the file.")
        .args([config, check])
        .args(keys)
}

impl Settings {
    fn set(&mut self, key: &'static Key, text: String, origin: Origin) {
        self.0.insert(key.name, Setting { text, origin });
    }

    fn add_environment(&mut self, variables: &BTreeMap<String, String>, errors: &mut Vec<String>) {
        for (name, text) in variables.iter().filter(|(name, _)| *name != FILE_VARIABLE) {
            match KEYS.iter().find(|key| key.variable() == *name) {
                Some(key) => self.set(key, text.clone(), Origin::Environment(name.clone())),
                None => {
                    let known = KEYS.iter().map(Key::variable);
                    let known = known.chain([FILE_VARIABLE.to_owned()]).collect();
                    errors.push(unknown(name, text, "environment", known));
                }
            }
        }
    }

    fn add_file(&mut self, path: &str, text: io::Result<String>, errors: &mut Vec<String>) {
        let text = match text {
            Ok(text) => text,
            Err(error) => return errors.push(format!("configuration file {path}: {error}")),
        };
        match text.parse::<toml::Table>() {
            Ok(table) => self.add_table(path, "", &table, errors),
            Err(error) => errors.push(format!("configuration file {path}: {error}")),
        }
    }

    fn add_table(
        &mut self,
        path: &str,
        prefix: &str,
        table: &toml::Table,
        errors: &mut Vec<String>,
    ) {
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            let key = KEYS.iter().find(|key| key.name == name);
            let is_table = KEYS.iter().any(|key| key.name.starts_with(&format!("{name}.")));
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match (key, value) {
                (None, Value::Table(inner)) if is_table => {
                    self.add_table(path, &format!("{name}."), inner, errors);
                }
                (Some(key), _) if self.0.contains_key(key.name) => {
                    errors.push(format!("{name} = {text:?} (file {path}): given twice"));
                }
                (Some(key), _) => {
                    self.set(key, text, Origin::File(path.to_owned()));
                }
                (None, _) => {
                    let table = KEYS.iter().filter(|key| key.name.starts_with(prefix));
                    let known = table.map(|key| key.name.to_owned()).collect();
                    errors.push(unknown(&name, &text, &format!("file {path}"), known));
                }
            }
        }
    }
}

/// Says that a key is unknown, and which are known. What sounds like a secret is not shown: this
/// goes into logs.
fn unknown(name: &str, text: &str, origin: &str, known: Vec<String>) -> String {
    let lower = name.to_ascii_lowercase();
    let words = ["pass", "secret", "token", "key", "cred", "auth", "dsn", "url"];
    let secret = words.iter().any(|word| lower.contains(word));
    let shown = if secret { "(not shown)".to_owned() } else { super::shown(text) };
    format!("{name} = {shown} ({origin}): unknown key; allowed are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, String> {
        let flags = ["corelane-server"].iter().chain(flags).map(OsString::from);
        let variables = variables.iter().map(|(k, v)| (OsString::from(k), OsString::from(v)));
        match read(flags, variables) {
            Ok(Invocation::Run(settings)) => Ok(settings),
            Ok(other) => Err(format!("{other:?}")),
            Err(errors) => Err(errors.to_string()),
        }
    }

    fn lanes(settings: &Settings) -> (String, Origin) {
        let key = KEYS.iter().find(|key| key.name == "lanes").expect("a key");
        let setting = settings.get(key);
        (setting.text, setting.origin)
    }

    #[test]
    fn the_flag_wins_over_the_environment() {
        let settings = run(&["--lanes", "2"], &[("CORELANE_LANES", "3"), ("HOME", "/")]);
        let got = lanes(&settings.expect("valid"));
        assert_eq!(got, ("2".to_owned(), Origin::Flag("--lanes".to_owned())));

        let settings = run(&[], &[("CORELANE_LANES", "3")]);
        let got = lanes(&settings.expect("valid"));
        assert_eq!(got, ("3".to_owned(), Origin::Environment("CORELANE_LANES".to_owned())));

        assert_eq!(lanes(&run(&[], &[]).expect("valid")), ("auto".to_owned(), Origin::Default));
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = run(&[], &[("CORELANE_LANE", "3")]).expect_err("unknown variable");
        assert!(
            error.contains("CORELANE_LANE = \"3\"") && error.contains("CORELANE_LANES"),
            "{error}"
        );
        let error = run(&[], &[("CORELANE_DATABASE_PASSWORD", "hunter2")]).expect_err("unknown");
        assert!(error.contains("CORELANE_DATABASE_PASSWORD_FILE"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let error = run(&["--lane", "3"], &[]).expect_err("unknown flag");
        assert!(error.contains("--lane"), "{error}");
    }

    #[test]
    fn tables_of_the_file_become_dotted_keys() {
        let mut settings = Settings::default();
        let mut errors = Vec::new();
        let table = "lanes = 2\nlimits.headers = 50\n[drain]\nsettle = '1s'".parse().expect("TOML");
        settings.add_table("f.toml", "", &table, &mut errors);
        assert_eq!(errors, Vec::<String>::new());
        let seen: Vec<_> = settings.0.iter().map(|(k, v)| (*k, v.text.as_str())).collect();
        assert_eq!(seen, [("drain.settle", "1s"), ("lanes", "2"), ("limits.headers", "50")]);

        let table = "drain = 5\n[limit]\nheaders = 1".parse().expect("TOML");
        settings.add_table("f.toml", "", &table, &mut errors);
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors.iter().all(|e| e.contains("unknown key") && e.contains("f.toml")));
    }
}
