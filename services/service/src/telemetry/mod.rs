//! The log line of each request, and its span if the trace is recorded.

mod exporter;
mod otlp;
mod request_log;
mod spans;

use std::fmt;
use std::io;
use std::time::Duration;

use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::DescriptorEncoder;
use corelane::prometheus_client::metrics::MetricType;
use corelane::{Builder, Finished, Lane, Traces};

use exporter::Exporter;
use request_log::RequestLog;
use spans::Spans;

use crate::http::Url;
use crate::value::{HOUR, MILLISECOND, duration, ratio};

settings! {
    /// Where spans go.
    pub(crate) struct Otlp {
        "otlp.endpoint" => otlp_endpoint: Option<Endpoint> = "", endpoint,
            "URL of the OTLP/HTTP collector of spans, such as http://127.0.0.1:4318; empty sends none";
        "otlp.ratio" => otlp_ratio: f64 = "0.01", ratio,
            "Share of requests without a trace that start one, from 0 to 1";
        "otlp.timeout" => otlp_timeout: Duration = "10s", duration(100 * MILLISECOND, HOUR),
            "Time limit to send spans";
    }
}

/// The version of the service, as a metric.
#[derive(Debug)]
struct Info(&'static str, &'static str);

impl Collector for Info {
    fn encode(&self, mut out: DescriptorEncoder) -> fmt::Result {
        let help = "Name and version of the service; always 1";
        out.encode_descriptor("corelane_service_info", help, None, MetricType::Gauge)?
            .encode_family(&[("name", self.0), ("version", self.1)])?
            .encode_gauge(&1_u64)
    }
}

/// The process whose requests are logged, and whose spans are sent.
pub(crate) struct Source<'a> {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) replica: &'a str,
    /// Whether it serves clients over TLS.
    pub(crate) tls: bool,
}

/// The server's part in traces: it records spans if they can be sent.
pub(crate) fn traces(config: &Otlp, request_ids: bool) -> Traces {
    match (&config.otlp_endpoint, request_ids) {
        (Some(_), _) => Traces::Record { ratio: config.otlp_ratio },
        (None, true) => Traces::PassOn,
        (None, false) => Traces::Off,
    }
}

/// Logs each request and sends its span, until the result is dropped after the server has ended.
/// Dropping it sends the remaining spans.
pub(crate) fn start(
    builder: Builder,
    config: &Otlp,
    source: &Source<'_>,
) -> io::Result<(Builder, Option<Exporter>)> {
    let builder = builder.collector(Info(source.name, source.version));
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok((builder.observer(log_only), None));
    };
    let (spans, tls) = (Spans::default(), source.tls);
    let resource = otlp::resource(source);
    let exporter = Exporter::start(endpoint.clone(), config.otlp_timeout, resource, &spans)?;
    let builder = builder.collector(spans.clone());
    let observed = builder.observer(move |lane| {
        let (log, queue) = (RequestLog::new(lane.index()), spans.queue(lane.index(), tls));
        move |request: &Finished<'_>| {
            log.note(request);
            queue.note(request);
        }
    });
    Ok((observed, Some(exporter)))
}

fn log_only(lane: &Lane) -> impl Fn(&Finished<'_>) + use<> {
    let log = RequestLog::new(lane.index());
    move |request| log.note(request)
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
