//! The configuration: one typed schema, filled from a file, the environment and flags.

mod schema;
mod sources;
mod values;

use std::fmt::Write as _;

pub(crate) use schema::Config;
pub(crate) use sources::{Invocation, read};
pub(crate) use values::{LogFormat, LogLevel};

/// Everything that is wrong with a configuration, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct ConfigErrors(Vec<String>);

/// Where a setting came from, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File(String),
    Environment(String),
    Flag(String),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {path}"),
            Origin::Environment(name) => write!(f, "environment variable {name}"),
            Origin::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One setting as text, before it is parsed.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The settings in force and where each came from, for `--check`.
pub(crate) fn describe(settings: &sources::Settings) -> String {
    let mut out = String::new();
    for key in schema::KEYS {
        let setting = settings.get(key);
        let _ = writeln!(out, "{} = {:?}  # {}", key.name, setting.text, setting.origin);
    }
    out
}
