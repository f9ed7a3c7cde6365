//! The configuration of a service: a table of keys, filled from a TOML file, the environment and flags.
//!
//! A service describes its keys in a [`Program`], reads what was given for them with [`Program::read`] and
//! parses each with [`Settings::parse`]. Every error names the key, its value, where that came from and what
//! is allowed.

mod sources;

pub use sources::{Invocation, Setting, Settings};

use std::fmt;

use clap::{Arg, ArgAction, Command};

/// All errors of a configuration, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No value was given.
    Default,
    /// The file of this path.
    File(String),
    /// The environment variable of this name.
    Environment(String),
    /// The flag of this name.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {path}"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// A value in an error. One that may hold a password is not shown, because errors are logged.
fn shown(text: &str) -> String {
    if text.contains('@') { "(not shown)".to_owned() } else { format!("{text:?}") }
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file. A dot separates the table.
    pub name: &'static str,
    /// The value if none is given.
    pub default: &'static str,
    /// A one-line description.
    pub help: &'static str,
}

impl Key {
    /// `limits.header_bytes` is `--limits.header-bytes`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// With the prefix `CORELANE_`, `limits.header_bytes` is `CORELANE_LIMITS_HEADER_BYTES`.
    pub fn variable(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

/// A program and its keys.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// What `--version` prints.
    pub version: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Environment variables with this prefix are settings.
    pub prefix: &'static str,
    /// The keys, in the order of the help.
    pub keys: &'static [Key],
}

impl Program {
    /// The variable that names the file, as `--config` does.
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
        let keys = self.keys.iter().map(|key| {
            let default = if key.default.is_empty() { "none" } else { key.default };
            let (help, variable) = (key.help, key.variable(self.prefix));
            Arg::new(key.name)
                .long(key.flag())
                .value_name("VALUE")
                // So that the error names the key's bounds, not an unknown flag `-1`.
                .allow_negative_numbers(true)
                .help(format!("{help} [default: {default}] [environment: {variable}]"))
        });
        Command::new(self.name)
            .version(self.version)
            .about(self.about)
            .after_help(
                "Flags take precedence over the environment, the environment over the file.",
            )
            .args([config, check])
            .args(keys)
    }
}
