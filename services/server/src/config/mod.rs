//! The configuration: one typed schema, filled from a file, the environment and flags.

mod schema;

use std::str::FromStr;

use corelane::{Listen, Tls};
use corelane_service::config::ConfigErrors;
use corelane_service::http::Url;
use corelane_service::value::{list, word};

use crate::auth::Auth;

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

/// Parses where to listen: at least one place.
fn places(text: &str) -> Result<Vec<Listen>, String> {
    let places = list(word::<Listen>)(text)?;
    // An empty text gives the message for one place.
    if places.is_empty() { word::<Listen>(text).map(|place| vec![place]) } else { Ok(places) }
}

/// The path of spans that the OTLP specification appends ("Endpoint URLs for OTLP/HTTP").
const TRACES: &str = "v1/traces";

/// A collector with OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    /// With the part for spans.
    pub(crate) path: String,
}

/// Parses a collector's URL; empty means none.
fn endpoint(text: &str) -> Result<Option<Endpoint>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let allowed =
        "a URL without user and query that begins with http://, such as http://127.0.0.1:4318";
    let url = text.parse().ok().filter(|url: &Url| url.path().query().is_none());
    let url = url.ok_or_else(|| allowed.to_owned())?;
    let path = format!("{}/{TRACES}", url.path().path().trim_end_matches('/'));
    Ok(Some(Endpoint { url, path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_for_spans_is_added() {
        let found = |text| {
            let Endpoint { url, path } = endpoint(text).expect("valid").expect("one");
            (format!("{}:{}", url.host(), url.port()), path)
        };
        let expected = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        assert_eq!(found("http://127.0.0.1:4318"), expected("127.0.0.1:4318", "/v1/traces"));
        assert_eq!(found("http://collector"), expected("collector:80", "/v1/traces"));
        assert_eq!(found("http://c:4318/a/b/"), expected("c:4318", "/a/b/v1/traces"));
        assert_eq!(found("http://[::1]:4318"), expected("[::1]:4318", "/v1/traces"));
        assert_eq!(endpoint(""), Ok(None));
    }

    #[test]
    fn other_urls_are_rejected() {
        for wrong in ["collector:4318", "https://c", "http://a:b@c", "http://c?x", "http://c:0"] {
            assert!(endpoint(wrong).is_err_and(|allowed| allowed.contains("http://")), "{wrong}");
        }
    }
}
