//! Where spans are sent.

use http::Uri;
use http::uri::Scheme;

/// What the OTLP specification adds to an endpoint for spans ("Endpoint URLs for OTLP/HTTP").
const TRACES: &str = "v1/traces";

/// A collector that takes OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    /// With the part for spans.
    pub(super) path: String,
}

/// A collector; empty is none.
pub(crate) fn endpoint(text: &str) -> Result<Option<Endpoint>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let allowed =
        "a URL without user and query that begins with http://, such as http://127.0.0.1:4318";
    read(text).map(Some).ok_or_else(|| allowed.to_owned())
}

fn read(text: &str) -> Option<Endpoint> {
    let uri: Uri = text.parse().ok()?;
    let authority = uri.authority()?;
    let bare = !authority.as_str().contains('@') && uri.query().is_none();
    if uri.scheme() != Some(&Scheme::HTTP) || !bare || uri.host()?.is_empty() {
        return None;
    }
    let port = match authority.as_str().strip_prefix(uri.host()?)? {
        "" => 80,
        port => port.strip_prefix(':')?.parse().ok().filter(|&port| port > 0)?,
    };
    let path = format!("{}/{TRACES}", uri.path().trim_end_matches('/'));
    Some(Endpoint { host: uri.host()?.to_owned(), port, path })
}

impl Endpoint {
    /// The field Host of a request.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The name to look up, or the address.
    pub(super) fn name(&self) -> (&str, u16) {
        (self.host.trim_start_matches('[').trim_end_matches(']'), self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_for_spans_is_added() {
        let found = |text| {
            let endpoint = endpoint(text).expect("valid").expect("one");
            (endpoint.authority(), endpoint.path)
        };
        let expected = |host: &str, path: &str| (host.to_owned(), path.to_owned());
        assert_eq!(found("http://127.0.0.1:4318"), expected("127.0.0.1:4318", "/v1/traces"));
        assert_eq!(found("http://collector"), expected("collector:80", "/v1/traces"));
        assert_eq!(found("http://c:4318/a/b/"), expected("c:4318", "/a/b/v1/traces"));
        assert_eq!(found("http://[::1]:4318"), expected("[::1]:4318", "/v1/traces"));
        assert_eq!(endpoint(""), Ok(None));
    }

    #[test]
    fn what_is_no_collector_is_refused() {
        for wrong in [
            "collector:4318",
            "https://c",
            "http://",
            "http://a:b@c",
            "http://c?x",
            "http://c:0",
            "4318",
            "http://c:99999",
        ] {
            assert!(endpoint(wrong).is_err_and(|allowed| allowed.contains("http://")), "{wrong}");
        }
    }
}
