//! The endpoint for spans.

use corelane_service::http::Url;

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
pub(crate) fn endpoint(text: &str) -> Result<Option<Endpoint>, String> {
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
