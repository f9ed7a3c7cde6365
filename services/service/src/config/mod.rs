//! A service's configuration: a table of keys, filled from a TOML file, the environment and flags.
//!
//! [`settings!`](crate::settings) declares keys and the struct of their values. A [`Program`]
//! combines one or more such tables, [`Program::read`] reads the given values, and [`Keys::parse`]
//! creates the struct. Every error names the key, its value, the value's source and what is
//! expected.

mod environment;
mod file;
mod schema;
mod secrets;
mod sources;

pub(crate) use environment::is_service_link;
pub use sources::{Invocation, Setting, Settings, unknown};

use std::fmt;

use clap::{Arg, ArgAction, Command};

use crate::value::Allowed;
use secrets::NOT_SHOWN;

/// All errors of a configuration, one per line.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

impl ConfigErrors {
    #[cfg(feature = "server")]
    pub(crate) fn take<T>(&mut self, result: Result<T, ConfigErrors>) -> Option<T> {
        result.map_err(|errors| self.0.extend(errors.0)).ok()
    }
}

impl From<Vec<Problem>> for ConfigErrors {
    /// Sorts problems: first problems in the file, by line, then problems in the environment and in
    /// flags.
    fn from(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| match problem.origin {
            Origin::Default => (0, 0),
            Origin::File { line, .. } => (1, line),
            Origin::Environment(_) => (2, 0),
            Origin::Flag(_) => (3, 0),
        });
        ConfigErrors(problems.into_iter().map(|problem| problem.text).collect())
    }
}

/// A configuration error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Source of the wrong name or value.
    pub origin: Origin,
    /// The complete error message.
    pub text: String,
}

/// Source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No value was given, so the default applies.
    Default,
    /// A line of the file.
    File {
        /// The path of the file.
        path: String,
        /// Line number, from 1.
        line: usize,
    },
    /// This environment variable.
    Environment(String),
    /// This flag.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line } => write!(f, "file {path}:{line}"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// Hides a value that may hold a password, because errors are logged.
fn shown(text: &str) -> String {
    let secret = text.contains('@') || secrets::without_passwords(text) != text;
    if secret { NOT_SHOWN.to_owned() } else { format!("{text:?}") }
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Name in the file, after the table and a dot if it is in a table.
    pub name: &'static str,
    /// Default as text.
    pub default: &'static str,
    /// A one-line description.
    pub help: &'static str,
    /// The values that the key's parser accepts, from [`value::allowed`](crate::value::allowed).
    pub allowed: fn() -> Option<Allowed>,
}

impl Key {
    /// The flag: `limits.header_bytes` becomes `--limits.header-bytes`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    fn shown(&self, text: &str) -> String {
        if self.is_secret() { NOT_SHOWN.to_owned() } else { shown(text) }
    }

    /// Whether the value is a secret. The parser decides this, for example
    /// [`value::secret`](crate::value::secret), or a name such as `api_token`, unless the value is
    /// a number, a word or a file path.
    pub fn is_secret(&self) -> bool {
        let schema = (self.allowed)().map(|allowed| allowed.schema);
        let possible = schema.as_ref().is_none_or(secrets::may_be_secret);
        schema.as_ref().is_some_and(|schema| secrets::has(schema, "writeOnly", &true.into()))
            || (possible && secrets::is_sensitive(self.name))
    }

    /// The default for the help and the schema. A secret default is hidden, because a service may
    /// have taken it from another source.
    fn shown_default(&self) -> &'static str {
        let secret = !self.default.is_empty() && self.is_secret();
        if secret { NOT_SHOWN } else { self.default }
    }

    fn is_list(&self) -> bool {
        let schema = (self.allowed)().map(|allowed| allowed.schema);
        schema.is_some_and(|schema| secrets::has(&schema, "type", &"array".into()))
    }

    /// Formats a value for `Debug` without its secret parts.
    #[doc(hidden)]
    pub fn debug(&self, value: &dyn fmt::Debug) -> String {
        let text = || secrets::without_passwords(&format!("{value:?}")).into_owned();
        if self.is_secret() { NOT_SHOWN.to_owned() } else { text() }
    }

    /// The variable: with the prefix `CORELANE_`, `limits.header_bytes` becomes
    /// `CORELANE_LIMITS_HEADER_BYTES`.
    pub fn variable(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

/// Keys and the type of their values, created by [`settings!`](crate::settings). `()` has no keys.
pub trait Keys: Sized {
    /// Keys in help order.
    const KEYS: &'static [Key];

    /// Parses every setting. Returns `None` if any setting is invalid, and adds an error for each
    /// invalid setting.
    fn parse(settings: &Settings, errors: &mut Vec<Problem>) -> Option<Self>;
}

impl Keys for () {
    const KEYS: &'static [Key] = &[];

    fn parse(_settings: &Settings, _errors: &mut Vec<Problem>) -> Option<Self> {
        Some(())
    }
}

/// Declares a struct of settings. Each field declares its key in the file, its type, its default as
/// text, a parser such as those in [`value`](crate::value), and a one-line help text. A dot in the
/// key separates the file's table from the name. The struct implements
/// [`Keys`](crate::config::Keys) and `Debug`. Use [`value::secret`](crate::value::secret) for
/// secrets, which are never shown. Text is also hidden if its key ends in a word such as `token`,
/// `key` or `dsn`, or contains `password` or `secret`.
///
/// ```
/// use std::time::Duration;
///
/// use corelane_service::config::{Keys, Settings};
/// use corelane_service::{settings, value};
///
/// settings! {
///     /// How the shop works.
///     pub struct Shop {
///         "shop.name" => name: String = "corner", value::text, "Name of the shop";
///         "shop.pause" => pause: Duration = "1s",
///             value::duration(Duration::ZERO, Duration::from_secs(60)), "Time before each reply";
///     }
/// }
///
/// let shop = Shop::parse(&Settings::default(), &mut Vec::new()).expect("defaults are valid");
/// assert_eq!((shop.name.as_str(), shop.pause), ("corner", Duration::from_secs(1)));
/// assert_eq!(Shop::KEYS[1].variable("CORELANE_"), "CORELANE_SHOP_PAUSE");
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            $($name:literal => $field:ident: $type:ty = $default:literal, $parse:expr, $help:literal;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $table {
            $(#[doc = $help] $vis $field: $type,)*
        }

        impl ::std::fmt::Debug for $table {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut keys = <Self as $crate::config::Keys>::KEYS.iter();
                let mut all = f.debug_struct(::std::stringify!($table));
                $(if let ::std::option::Option::Some(key) = keys.next() {
                    let shown = key.debug(&self.$field);
                    all.field(::std::stringify!($field), &::std::format_args!("{shown}"));
                })*
                all.finish()
            }
        }

        impl $crate::config::Keys for $table {
            const KEYS: &'static [$crate::config::Key] =
                &[$($crate::config::Key {
                    name: $name,
                    default: $default,
                    help: $help,
                    allowed: || $crate::value::allowed($parse),
                }),*];

            fn parse(
                settings: &$crate::config::Settings,
                errors: &mut ::std::vec::Vec<$crate::config::Problem>,
            ) -> ::std::option::Option<Self> {
                let mut keys = Self::KEYS.iter();
                $(let $field: ::std::option::Option<$type> =
                    keys.next().and_then(|key| settings.parse(key, $parse, errors));)*
                ::std::option::Option::Some(Self { $($field: $field?),* })
            }
        }
    };
}

/// A program and its keys.
///
/// ```
/// use corelane_service::config::{Invocation, Keys, Program};
/// use corelane_service::{settings, value};
///
/// settings! {
///     /// How the demo works.
///     struct Demo {
///         "steps" => steps: u64 = "3", value::number(1, 9), "Number of steps";
///     }
/// }
///
/// let keys = Demo::KEYS.to_vec();
/// let (prefix, others) = ("DEMO_", &["DEMO_HOME"][..]);
/// let program = Program { name: "demo", version: "1", about: "Shows keys", prefix, others, keys };
/// let arguments = ["demo", "--steps", "5"].map(Into::into);
/// let Ok(Invocation::Run(settings)) = program.read(arguments, []) else { panic!("valid") };
/// let demo = Demo::parse(&settings, &mut Vec::new()).expect("valid");
/// assert_eq!(demo.steps, 5);
/// let wrong = program.read(["demo".into()], [("DEMO_STEP".into(), "5".into())]).expect_err("unknown");
/// assert!(wrong.to_string().contains("did you mean DEMO_STEPS?"));
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// Name on the command line.
    pub name: &'static str,
    /// Printed by `--version`.
    pub version: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Environment variables with this prefix are settings. Unknown variables are errors, because
    /// they are probably misspelt, but variables that Kubernetes sets for a Service are ignored.
    pub prefix: &'static str,
    /// Variables with the prefix that do not belong to the program: names, and prefixes that end in
    /// `_`.
    pub others: &'static [&'static str],
    /// Keys in help order, with unique names.
    pub keys: Vec<Key>,
}

impl Program {
    fn file_variable(&self) -> String {
        format!("{}CONFIG", self.prefix)
    }

    fn command(&self) -> Command {
        let file = self.file_variable();
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help(format!("TOML file with any of the keys below [environment: {file}]"));
        let check = Arg::new("check")
            .long("check")
            .action(ArgAction::SetTrue)
            .help("Validate the configuration, show each value with its origin, and exit");
        let schema = Arg::new("schema")
            .long("schema")
            .action(ArgAction::SetTrue)
            .help("Print the JSON Schema of the file, and exit");
        let keys = self.keys.iter().map(|key| {
            let default = if key.default.is_empty() { "none" } else { key.shown_default() };
            let (help, variable) = (key.help, key.variable(self.prefix));
            let table = key.name.rsplit_once('.').map(|(table, _)| format!("[{table}]"));
            Arg::new(key.name)
                .help_heading(table.unwrap_or_else(|| "General".to_owned()))
                .long(key.flag())
                .value_name("VALUE")
                // The error then names the key's bounds instead of an unknown flag `-1`.
                .allow_negative_numbers(true)
                .help(format!("{help} [default: {default}] [environment: {variable}]"))
        });
        Command::new(self.name)
            .version(self.version)
            .about(self.about)
            .after_help(
                "Flags take precedence over the environment, the environment over the file.",
            )
            .args([config, check, schema])
            .args(keys)
    }
}
