//! Chooses the metrics format that a client prefers (RFC 9110 section 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

struct MediaType {
    kind: &'static str,
    subtype: &'static str,
    versions: &'static [&'static str],
}

/// Prometheus requested 0.0.1 before 1.0.0 was published.
const OPENMETRICS: MediaType =
    MediaType { kind: "application", subtype: "openmetrics-text", versions: &["1.0.0", "0.0.1"] };

const CLASSIC: MediaType = MediaType { kind: "text", subtype: "plain", versions: &["0.0.4"] };

/// Whether the client prefers the older text format to OpenMetrics. Clients that accept neither
/// format also get OpenMetrics.
pub(super) fn prefers_classic(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<_> = values.flat_map(|value| value.split(',')).collect();
    CLASSIC.quality(&ranges) > OPENMETRICS.quality(&ranges)
}

impl MediaType {
    /// Weight of the most specific range that includes this type.
    fn quality(&self, ranges: &[&str]) -> f32 {
        let matching = ranges.iter().filter_map(|range| self.weight(range));
        matching.max_by_key(|(specific, _)| *specific).map_or(0.0, |(_, quality)| quality)
    }

    /// Specificity and weight of the range, if it includes this type.
    fn weight(&self, range: &str) -> Option<(u8, f32)> {
        let mut parts = range.split(';').map(str::trim);
        let (kind, subtype) = parts.next()?.split_once('/')?;
        let is = |text: &str, of: &str| text.eq_ignore_ascii_case(of);
        let mut specific = match (is(kind, self.kind), is(subtype, self.subtype)) {
            (true, true) => 2,
            (true, false) if subtype == "*" => 1,
            _ if (kind, subtype) == ("*", "*") => 0,
            _ => return None,
        };
        let mut quality = 1.0;
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            if is(name.trim(), "q") {
                quality = value.parse().unwrap_or(quality);
            } else if is(name.trim(), "version") {
                self.versions.contains(&value).then_some(())?;
                specific = 3;
            }
        }
        Some((specific, quality))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_client_chooses() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,\
            text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, classic) in [
            ("text/plain;version=0.0.4", true),
            ("Text/Plain; Version=\"0.0.4\"; q=0.5, */*;q=0.1", true),
            ("text/plain", true),
            ("text/*", true),
            ("text/plain, application/openmetrics-text;q=0.9", true),
            ("application/openmetrics-text;q=0, */*", true),
            ("", false),
            ("*/*", false),
            ("text/html,application/xml;q=0.9,*/*;q=0.8", false),
            ("application/json", false),
            ("text/plain;version=0.0.3", false),
            ("application/openmetrics-text, text/plain", false),
            ("application/openmetrics-text, text/plain;q=0.5", false),
            (PROMETHEUS, false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(prefers_classic(&headers), classic, "{accept}");
        }
        assert!(!prefers_classic(&HeaderMap::new()));
    }
}
