//! The configuration: one typed schema, filled from a file, the environment and flags.

mod schema;
mod sources;
mod values;

use std::fmt::Write as _;

use corelane::Tls;

use crate::auth::Auth;
use crate::projects::postgres;

pub(crate) use schema::Config;
#[cfg(feature = "fuzzing")]
pub(crate) use sources::read_with;
pub(crate) use sources::{Invocation, read};
pub(crate) use values::{DatabaseKind, LogFormat, duration};

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

impl Config {
    /// Whether there is a database for projects.
    pub(crate) fn serves_projects(&self) -> bool {
        self.database_kind == DatabaseKind::Postgres || self.database_path.is_some()
    }

    /// Who may write, by the file of tokens.
    pub(crate) fn auth(&self) -> Result<Auth, ConfigErrors> {
        Auth::load(self.auth_tokens.clone(), self.auth_reload)
            .map_err(|error| ConfigErrors(vec![format!("auth.tokens: {error}")]))
    }

    /// TLS, if both of its files are named.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, ConfigErrors> {
        let missing = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                return Ok(Some(Tls { reload: self.tls_reload, ..Tls::new(certificate, key) }));
            }
            (None, None) => return Ok(None),
            (Some(_), None) => "tls.key is empty: it belongs to tls.certificate",
            (None, Some(_)) => "tls.certificate is empty: it belongs to tls.key",
        };
        Err(ConfigErrors(vec![format!("{missing}, so set both or neither")]))
    }
}

impl Config {
    /// How to reach PostgreSQL, if projects are kept there.
    pub(crate) fn postgres(&self) -> Result<Option<postgres::Settings>, ConfigErrors> {
        match self.database_kind {
            // Judged in any case: a password in it would be shown by `--check`.
            DatabaseKind::Sqlite if self.database_url.is_empty() => Ok(None),
            DatabaseKind::Sqlite => {
                let judged = postgres::Settings::new(self).map(|_| None);
                judged.map_err(|error| ConfigErrors(vec![error]))
            }
            DatabaseKind::Postgres => {
                let settings = postgres::Settings::new(self);
                settings.map(Some).map_err(|error| ConfigErrors(vec![error]))
            }
        }
    }
}

/// One setting as text, before it is parsed.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// A value in an error: one that may hold a password is not shown, because errors go into logs.
fn shown(text: &str) -> String {
    if text.contains('@') { "(not shown)".to_owned() } else { format!("{text:?}") }
}

/// The settings in force and where each came from, for `--check`: a file that sets the same.
pub(crate) fn describe(settings: &sources::Settings) -> String {
    let mut out = String::new();
    for key in schema::KEYS {
        let setting = settings.get(key);
        // TOML's escapes are not those of Rust.
        let text = toml::Value::String(setting.text);
        let _ = writeln!(out, "{} = {text}  # {}", key.name, setting.origin);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn what_check_shows_is_a_file_that_sets_the_same() {
        // A wide space before a unit is one that durations allow.
        let flags = ["corelane-server", "--check", "--timeouts.idle", "75\u{2003}s"];
        let Ok(Invocation::Check(settings)) = read(flags.map(OsString::from), []) else {
            panic!("the flags are valid")
        };
        let shown: toml::Table = describe(&settings).parse().expect("TOML");
        assert_eq!(shown["timeouts"]["idle"].as_str(), Some("75\u{2003}s"));
        assert_eq!(shown["lanes"].as_str(), Some("auto"));
    }
}
