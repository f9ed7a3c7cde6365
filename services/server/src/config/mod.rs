//! The configuration: one typed schema, filled from a file, the environment and flags.

mod endpoint;
mod schema;

use std::str::FromStr;

use corelane::Tls;
use corelane_service::config::ConfigErrors;

use crate::auth::Auth;

pub(crate) use endpoint::Endpoint;
pub(crate) use schema::{Config, PROGRAM};

/// The database for projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl FromStr for DatabaseKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sqlite" => Ok(DatabaseKind::Sqlite),
            "postgres" => Ok(DatabaseKind::Postgres),
            _ => Err("sqlite, postgres".to_owned()),
        }
    }
}

impl Config {
    /// The name of this replica, in replies, spans and at the database.
    pub(crate) fn replica_name(&self) -> String {
        match self.replica.as_str() {
            "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            name => name.to_owned(),
        }
    }

    /// Whether there is a database for projects.
    pub(crate) fn serves_projects(&self) -> bool {
        self.database_kind == DatabaseKind::Postgres || self.database_path.is_some()
    }

    /// The authentication of writes, from the token file.
    pub(crate) fn auth(&self) -> Result<Auth, ConfigErrors> {
        Auth::load(self.auth_tokens.clone(), self.auth_reload)
            .map_err(|error| ConfigErrors(vec![format!("auth.tokens: {error}")]))
    }

    /// TLS, if both of its files are set.
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
