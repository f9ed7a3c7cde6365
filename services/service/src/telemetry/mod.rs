//! The log line of each request, its span if the trace is recorded, and pushed metrics.

mod exporter;
mod metrics;
mod otlp;
mod request_log;
mod spans;

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::DescriptorEncoder;
use corelane::prometheus_client::metrics::MetricType;
use corelane::{Builder, Finished, Lane, Server, Traces};

use exporter::{Exporter, Target};
use request_log::RequestLog;
use serde_json::json;
use spans::Spans;

use crate::http::Url;
use crate::value::{Allowed, HOUR, MILLISECOND, duration, ratio};

settings! {
    pub(crate) struct Otlp {
        "otlp.endpoint" => otlp_endpoint: Option<Endpoint> = "", endpoint("v1/traces"),
            "URL of the OTLP/HTTP collector for spans, such as http://127.0.0.1:4318; if empty, \
             no spans are sent";
        "otlp.metrics_endpoint" => otlp_metrics_endpoint: Option<Endpoint> = "", endpoint("v1/metrics"),
            "URL of the OTLP/HTTP collector for metrics, such as http://127.0.0.1:4318; if empty, \
             no metrics are sent";
        "otlp.metrics_interval" => otlp_metrics_interval: Duration = "60s", duration(Duration::from_secs(1), HOUR),
            "Interval at which metrics are sent";
        "otlp.ratio" => otlp_ratio: f64 = "0.01", ratio,
            "Share of untraced requests that start a trace, from 0 to 1";
        "otlp.timeout" => otlp_timeout: Duration = "10s", duration(100 * MILLISECOND, HOUR),
            "Time limit for a request to a collector";
    }
}

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

pub(crate) struct Source<'a> {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    pub(crate) replica: &'a str,
    pub(crate) tls: bool,
}

pub(crate) fn traces(config: &Otlp, request_ids: bool) -> Traces {
    match (&config.otlp_endpoint, request_ids) {
        (Some(_), _) => Traces::Record { ratio: config.otlp_ratio },
        (None, true) => Traces::PassOn,
        (None, false) => Traces::Off,
    }
}

/// The spans and metrics to send once the server is built.
pub(crate) struct Telemetry {
    spans: Option<(Target, otlp::Sent)>,
    metrics: Option<Target>,
    resource: otlp::Resource,
    start: SystemTime,
}

pub(crate) fn prepare(
    builder: Builder,
    config: &Otlp,
    source: &Source<'_>,
) -> (Builder, Telemetry) {
    let builder = builder.collector(Info(source.name, source.version));
    let target = |endpoint: &Option<Endpoint>, every| {
        let endpoint = endpoint.clone()?;
        Some(Target { endpoint, allowed: config.otlp_timeout, every })
    };
    let resource = otlp::resource(source);
    let metrics = target(&config.otlp_metrics_endpoint, config.otlp_metrics_interval);
    let start = SystemTime::now();
    let Some(target) = target(&config.otlp_endpoint, SPANS_EVERY) else {
        return (builder.observer(log_only), Telemetry { spans: None, metrics, resource, start });
    };
    let (spans, tls) = (Spans::default(), source.tls);
    let sent = otlp::Sent { spans: spans.clone(), resource: resource.clone() };
    let builder = builder.collector(spans.clone());
    let observed = builder.observer(move |lane| {
        let (log, queue) = (RequestLog::new(lane.index()), spans.queue(lane.index(), tls));
        move |request: &Finished<'_>| {
            log.note(request);
            queue.note(request);
        }
    });
    (observed, Telemetry { spans: Some((target, sent)), metrics, resource, start })
}

impl Telemetry {
    /// Sends spans and metrics until the result is dropped after the server has stopped. Dropping
    /// it sends the remaining spans and the last values.
    pub(crate) fn start(self, server: &Server) -> io::Result<Option<Exporter>> {
        let Telemetry { spans, metrics, resource, start } = self;
        if spans.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let sent = |target| (target, metrics::Sent { page: server.metrics(), resource, start });
        Exporter::start(spans, metrics.map(sent)).map(Some)
    }
}

fn log_only(lane: &Lane) -> impl Fn(&Finished<'_>) + use<> {
    let log = RequestLog::new(lane.index());
    move |request| log.note(request)
}

const SPANS_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) path: String,
}

/// Parses a collector's URL; an empty text means no collector. `signal` is the path that OTLP
/// appends ("Endpoint URLs for OTLP/HTTP").
fn endpoint(signal: &'static str) -> impl Fn(&str) -> Result<Option<Endpoint>, Allowed> {
    move |text| {
        if text.is_empty() {
            return Ok(None);
        }
        let words =
            "a URL without user and query that begins with http://, such as http://127.0.0.1:4318";
        let schema = || json!({"type": "string", "pattern": "^(http://[^@?]+)?$"});
        let url = text.parse().ok().filter(|url: &Url| url.path().query().is_none());
        let url = url.ok_or_else(|| Allowed::new(words, schema()))?;
        let path = format!("{}/{signal}", url.path().path().trim_end_matches('/'));
        Ok(Some(Endpoint { url, path }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_signal_is_added() {
        let endpoint = endpoint("v1/traces");
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
            let Err(allowed) = endpoint("v1/metrics")(wrong) else { panic!("{wrong}") };
            assert!(allowed.text.contains("http://"), "{allowed}");
        }
    }
}
