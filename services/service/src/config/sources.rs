//! Sources of settings: a TOML file, then the environment, then flags. The last source wins.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;

use clap::error::{ContextKind, ErrorKind};

use super::secrets::{NOT_SHOWN, without_passwords};
use super::{ConfigErrors, Key, Origin, Problem, Program, shown};
use crate::value::Allowed;

/// A setting as text, before it is parsed.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The value as given.
    pub text: String,
    /// The value's source.
    pub origin: Origin,
}

/// The given values.
#[derive(Debug, Default)]
pub struct Settings {
    pub(super) values: BTreeMap<&'static str, Setting>,
    warning: Option<String>,
    /// Unknown keys, and an error if the file could not be read.
    pub(crate) problems: Vec<Problem>,
}

/// The action that the command line requests.
#[derive(Debug)]
pub enum Invocation {
    /// Run with these settings.
    Run(Settings),
    /// Validate these settings and exit.
    Check(Settings),
    /// Print this text (help, version or schema) and exit.
    Print(String),
}

impl Program {
    /// Reads the command line, the environment and the configuration file.
    ///
    /// # Errors
    ///
    /// Returns all unknown keys, and an error if a file cannot be read.
    pub fn read(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Invocation, ConfigErrors> {
        self.read_with(arguments, environment, |path| std::fs::read_to_string(path))
    }

    /// Like [`Program::read`], but reads a file's text with `open`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Program::read`].
    pub fn read_with(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        open: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Invocation, ConfigErrors> {
        match self.read_all(arguments, environment, open)? {
            Invocation::Run(settings) | Invocation::Check(settings)
                if !settings.problems.is_empty() =>
            {
                Err(settings.problems.into())
            }
            invocation => Ok(invocation),
        }
    }

    /// Like [`Program::read_with`], but returns errors within the settings, so that values are
    /// checked as well.
    pub(crate) fn read_all(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        open: impl Fn(&str) -> io::Result<String>,
    ) -> Result<Invocation, ConfigErrors> {
        let mut arguments: Vec<_> = arguments.into_iter().collect();
        let mut wrong = Vec::new();
        let matches = loop {
            let error = match self.command().try_get_matches_from(&arguments) {
                Ok(matches) => break matches,
                Err(error) => error,
            };
            let text = error.render().to_string();
            if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
                return Ok(Invocation::Print(text));
            }
            // Parsing again without the unknown flag and its value reveals any other errors.
            let flag = error.get(ContextKind::InvalidArg).map(ToString::to_string);
            if wrong.is_empty() || flag.as_ref().is_none_or(|flag| flag.starts_with('-')) {
                wrong.push(of_flags(&text));
            }
            let count = arguments.len();
            let name =
                |given: &OsString| given.to_string_lossy().split('=').next() == flag.as_deref();
            arguments.retain(|given| !name(given));
            if arguments.len() == count {
                return Err(wrong.into());
            }
        };
        if matches.get_flag("schema") {
            return Ok(Invocation::Print(format!("{:#}\n", self.schema())));
        }
        let mut variables = self.variables(environment);
        let mut reader = Reader {
            program: self,
            settings: Settings { warning: variables.warning(), ..Settings::default() },
            errors: std::mem::take(&mut variables.errors),
        };
        let file = matches.get_one::<String>("config");
        if let Some(path) = file.or_else(|| variables.values.get(&self.file_variable())) {
            reader.add_file(path, open(path));
        }
        reader.add_environment(&variables.values);
        for key in &self.keys {
            if let Some(text) = matches.get_one::<String>(key.name) {
                reader.set(key, text.clone(), Origin::Flag(format!("--{}", key.flag())));
            }
        }
        let Reader { mut settings, errors, .. } = reader;
        settings.problems = errors.into_iter().chain(wrong).collect();
        match matches.get_flag("check") {
            true => Ok(Invocation::Check(settings)),
            false => Ok(Invocation::Run(settings)),
        }
    }
}

impl Settings {
    #[cfg(feature = "server")]
    pub(crate) fn preset(&mut self, key: &'static str, text: &str) {
        let preset = || Setting { text: text.to_owned(), origin: Origin::Default };
        self.values.entry(key).or_insert_with(preset);
    }

    /// A warning for the operator that lists ignored variables; every setting is valid.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The setting of a key: the last given value, or the default.
    pub fn get(&self, key: &Key) -> Setting {
        self.values
            .get(key.name)
            .cloned()
            .unwrap_or_else(|| Setting { text: key.default.to_owned(), origin: Origin::Default })
    }

    /// Parses a key's setting, or adds an error to `errors`. The error of `parse` describes the
    /// expected value, like those in [`value`](crate::value).
    pub fn parse<T, E: Into<Allowed>>(
        &self,
        key: &Key,
        parse: impl Fn(&str) -> Result<T, E>,
        errors: &mut Vec<Problem>,
    ) -> Option<T> {
        let setting = self.get(key);
        match parse(&setting.text) {
            Ok(value) => Some(value),
            Err(error) => {
                let Setting { text, origin } = setting;
                let (name, text, allowed): (_, _, Allowed) =
                    (key.name, key.shown(&text), error.into());
                let text = format!("{name} = {text} ({origin}): expected {allowed}");
                errors.push(Problem { origin, text });
                None
            }
        }
    }

    /// The active settings with their origins, for `--check`, in the form of a configuration file.
    /// `effective` contains the values chosen for settings such as `auto`, by key. A value that
    /// contains a secret is shown without the secret, in a comment.
    pub fn describe(&self, keys: &[Key], effective: &[(&str, String)]) -> String {
        let mut out = String::new();
        for key in keys {
            let setting = self.get(key);
            let shown = match key.is_secret() && !setting.text.is_empty() {
                true => NOT_SHOWN.into(),
                false => without_passwords(&setting.text),
            };
            if shown != setting.text {
                let _ = writeln!(out, "# {} = {shown}  # {}", key.name, setting.origin);
                continue;
            }
            let chosen =
                effective.iter().find(|(name, to)| *name == key.name && *to != setting.text);
            let chosen = chosen.map_or(String::new(), |(_, to)| format!(", in effect {to}"));
            // TOML's escapes differ from Rust's.
            let text = toml::Value::String(setting.text);
            let _ = writeln!(out, "{} = {text}  # {}{chosen}", key.name, setting.origin);
        }
        out
    }
}

/// Converts a clap error to one line, without the usage.
fn of_flags(text: &str) -> Problem {
    let text = text.split("\n\nUsage:").next().unwrap_or(text).trim_start_matches("error: ");
    let text = text.split("\n\n").map(str::trim).collect::<Vec<_>>().join("; ");
    Problem { origin: Origin::Flag(String::new()), text }
}

pub(super) struct Reader<'a> {
    pub(super) program: &'a Program,
    pub(super) settings: Settings,
    pub(super) errors: Vec<Problem>,
}

impl Reader<'_> {
    pub(super) fn set(&mut self, key: &Key, text: String, origin: Origin) {
        self.settings.values.insert(key.name, Setting { text, origin });
    }

    fn add_environment(&mut self, variables: &BTreeMap<String, String>) {
        for key in &self.program.keys {
            let name = key.variable(self.program.prefix);
            if let Some(text) = variables.get(&name) {
                self.set(key, text.clone(), Origin::Environment(name));
            }
        }
    }
}

/// Minimum similarity (Jaro-Winkler) of suggested names, as in clap.
const SIMILAR: f64 = 0.7;

/// The known name that a misspelt name probably means, or a hint on how to list all names.
pub(super) fn suggestion(name: &str, known: &[String]) -> String {
    let likeness = |other: &String| strsim::jaro_winkler(name, other);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|nearest| likeness(nearest) > SIMILAR) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "--help lists all".to_owned(),
    }
}

/// The error for an unknown key, with the most similar known key. Hides a value that may be a
/// secret, because errors are logged.
pub fn unknown(name: &str, text: &str, origin: &str, known: &[String]) -> String {
    let lower = name.to_ascii_lowercase();
    let words = ["pass", "secret", "token", "key", "cred", "auth", "dsn", "url"];
    let secret = words.iter().any(|word| lower.contains(word));
    let shown = if secret { NOT_SHOWN.to_owned() } else { shown(text) };
    format!("{name} = {shown} ({origin}): unknown key; {}", suggestion(name, known))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;
    use crate::value;

    const fn key(name: &'static str, default: &'static str) -> Key {
        Key { name, default, help: "", allowed: || None }
    }

    const KEYS: &[Key] = &[
        key("lanes", "auto"),
        key("limits.headers", "100"),
        key("drain.settle", "5s"),
        key("database.password_file", ""),
    ];

    fn program() -> Program {
        Program {
            name: "demo",
            version: "1",
            about: "",
            prefix: "DEMO_",
            others: &["DEMO_HOME", "DEMO_TOOL_"],
            keys: KEYS.to_vec(),
        }
    }

    fn read(
        flags: &[&str],
        variables: &[(&str, &str)],
        file: &str,
    ) -> Result<Invocation, ConfigErrors> {
        let flags = ["demo"].iter().chain(flags).map(OsString::from);
        let variables = variables.iter().map(|(k, v)| (OsString::from(k), OsString::from(v)));
        program().read_with(flags, variables, |_| Ok(file.to_owned()))
    }

    fn run(flags: &[&str], variables: &[(&str, &str)], file: &str) -> Result<Settings, String> {
        match read(flags, variables, file) {
            Ok(Invocation::Run(settings)) => Ok(settings),
            Ok(other) => Err(format!("{other:?}")),
            Err(errors) => Err(errors.to_string()),
        }
    }

    fn lanes(settings: &Settings) -> (String, Origin) {
        let Setting { text, origin } = settings.get(&KEYS[0]);
        (text, origin)
    }

    #[test]
    fn flags_take_precedence_over_the_environment_and_that_over_the_file() {
        let file = &["--config", "f.toml"][..];
        let all = [file, &["--lanes", "2"]].concat();
        let got = run(&all, &[("DEMO_LANES", "3"), ("HOME", "/")], "lanes = 4").expect("valid");
        assert_eq!(lanes(&got), ("2".to_owned(), Origin::Flag("--lanes".to_owned())));

        let got = run(file, &[("DEMO_LANES", "3")], "lanes = 4").expect("valid");
        assert_eq!(lanes(&got), ("3".to_owned(), Origin::Environment("DEMO_LANES".to_owned())));

        let got = run(&[], &[("DEMO_CONFIG", "g.toml")], "lanes = 4").expect("valid");
        assert_eq!(
            lanes(&got),
            ("4".to_owned(), Origin::File { path: "g.toml".to_owned(), line: 1 })
        );

        let got = run(file, &[("DEMO_CONFIG", "g.toml")], "lanes = 4").expect("valid");
        assert_eq!(
            lanes(&got),
            ("4".to_owned(), Origin::File { path: "f.toml".to_owned(), line: 1 })
        );

        let got = run(&[], &[], "").expect("valid");
        assert_eq!(lanes(&got), ("auto".to_owned(), Origin::Default));
    }

    #[test]
    fn unknown_names_are_rejected() {
        let error = run(&[], &[("DEMO_LANE", "3")], "").expect_err("unknown variable");
        assert!(error.contains("DEMO_LANE = \"3\""), "{error}");
        assert!(error.ends_with("unknown key; did you mean DEMO_LANES?"), "{error}");
        let error = run(&[], &[("DEMO_DATABASE_PASSWORD", "hunter2")], "").expect_err("unknown");
        assert!(error.contains("DEMO_DATABASE_PASSWORD_FILE"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let error = run(&["--lane", "3"], &[], "").expect_err("unknown flag");
        assert!(error.contains("--lane"), "{error}");
    }

    #[test]
    fn tables_of_the_file_become_dotted_keys() {
        let file = ["--config", "f.toml"];
        let text = "lanes = 2\nlimits.headers = 50\n[drain]\nsettle = '1s'";
        let settings = run(&file, &[], text).expect("valid");
        let seen: Vec<_> = settings.values.iter().map(|(k, v)| (*k, v.text.as_str())).collect();
        assert_eq!(seen, [("drain.settle", "1s"), ("lanes", "2"), ("limits.headers", "50")]);

        let errors = run(&file, &[("DEMO_LANE", "3")], "drain = 5\nzoo = 1\n[limit]\nheaders = 1");
        let expected = "drain = \"5\" (file f.toml:1): unknown key; did you mean drain.settle?\n\
                        zoo = \"1\" (file f.toml:2): unknown key; --help lists all\n\
                        [limit] (file f.toml:3): unknown table; did you mean limits?\n\
                        DEMO_LANE = \"3\" (environment): unknown key; did you mean DEMO_LANES?";
        assert_eq!(errors.expect_err("unknown"), expected);
        let broken = run(&file, &[], "lanes = = 1\n[drain\nsettle = '1s'").expect_err("not TOML");
        let lines: Vec<_> = broken.lines().map(|line| &line[..14]).collect();
        assert_eq!(lines, ["file f.toml:1:", "file f.toml:2:"], "{broken}");
    }

    #[test]
    fn the_description_is_a_file_that_sets_the_same() {
        // Durations may have several spaces before the unit.
        let flags = ["--check", "--drain.settle", "75\u{2003}s"];
        let Ok(Invocation::Check(settings)) = read(&flags, &[], "") else {
            panic!("the flags are valid")
        };
        let secrets = [
            key("shop.api_token", "hunter2"),
            Key {
                allowed: || value::allowed(value::list(value::secret)),
                ..key("shop.words", "hunter2")
            },
            key("shop.upstream", "https://me:hunter2@a.example/b"),
        ];
        let text = settings.describe(&[KEYS, &secrets].concat(), &[("lanes", "3".to_owned())]);
        assert!(text.contains("# default, in effect 3\n") && !text.contains("hunter2"), "{text}");
        assert!(text.contains("# shop.words = (not shown)  # default\n"), "{text}");
        assert!(
            text.contains("# shop.upstream = https://(not shown)@a.example/b  # default\n"),
            "{text}"
        );
        let shown: toml::Table = text.parse().expect("TOML");
        assert_eq!(shown["drain"]["settle"].as_str(), Some("75\u{2003}s"));
        assert_eq!(shown["lanes"].as_str(), Some("auto"));
    }

    #[test]
    fn values_of_a_file_are_read_whole_or_rejected() {
        let listed = || value::allowed(value::list(value::text));
        let keys = vec![
            Key { allowed: listed, ..key("routes", "") },
            Key { allowed: || value::allowed(value::switch), ..key("open", "off") },
            key("text", ""),
        ];
        let program = Program { keys, ..program() };
        let read = |file: &str| {
            let arguments = ["demo", "--config", "f.toml"].map(OsString::from);
            match program.read_with(arguments, [], |_| Ok(file.to_owned())) {
                Ok(Invocation::Run(settings)) => {
                    Ok(settings.values.values().map(|setting| setting.text.clone()).collect())
                }
                other => Err(format!("{other:?}")),
            }
        };
        for (file, text) in [
            ("routes = ['/a', '/b']", "/a,/b"),
            ("routes = [1, 2.5]", "1,2.5"),
            ("routes = []", ""),
            ("open = true", "true"),
            ("text = -9223372036854775808", "-9223372036854775808"),
            ("text = 1979-05-27T07:32:00Z", "1979-05-27T07:32:00Z"),
            ("text = 1e-7", "0.0000001"),
            ("text = 'é,\u{2003}字'", "é,\u{2003}字"),
            ("\u{feff}text = 'a'\r\n", "a"),
        ] {
            assert_eq!(read(file), Ok::<Vec<_>, _>(vec![text.to_owned()]), "{file}");
        }
        for (file, error) in [
            ("routes = ['/a,b']", "values without commas"),
            ("routes = [['/a']]", "values without commas"),
            ("text = ['a']", "one value, not a list"),
            ("text = { a = 1 }", "one value, not a table"),
            ("open = 'x'\npassword = \"hunter2", "f.toml:2: "),
        ] {
            let found = read(file).expect_err(file);
            assert!(found.contains(error) && !found.contains("hunter2"), "{found}");
        }
        let broken = OsString::from_vec(vec![0xff]);
        let found =
            program.read_with(["demo".into()], [("DEMO_TEXT".into(), broken)], |_| unreachable!());
        assert!(
            found.expect_err("bytes").to_string().contains("DEMO_TEXT: its value is not UTF-8")
        );
    }

    #[test]
    fn an_error_names_key_value_origin_and_what_is_allowed() {
        let settings = run(&["--lanes", "many"], &[], "").expect("the name is known");
        let mut errors = Vec::new();
        let lanes = settings.parse(&KEYS[0], value::number(1, 4), &mut errors);
        let error = "lanes = \"many\" (flag --lanes): expected a whole number from 1 to 4";
        assert_eq!((lanes, ConfigErrors::from(errors).0), (None, vec![error.to_owned()]));
    }
}
