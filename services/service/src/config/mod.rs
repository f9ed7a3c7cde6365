//! The configuration of a service: a table of keys, filled from a TOML file, the environment and flags.
//!
//! A service describes its keys in a [`Program`], reads what was given for them with [`Program::read`] and
//! parses each with [`Settings::parse`]. Every error names the key, its value, where that came from and what
//! is allowed.

mod key;
mod sources;

pub use key::{Key, Program};
pub use sources::{Invocation, Setting, Settings};

use std::fmt;

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
