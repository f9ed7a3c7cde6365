//! The log line of each request, and its span if the trace is recorded.

mod exporter;
mod otlp;
mod request_log;
mod spans;

use std::io;

use corelane::{Builder, Finished, Lane, Traces};

use exporter::Exporter;
use request_log::RequestLog;
use spans::Spans;

use crate::config::Config;

/// The server's part in traces: it records spans if they can be sent.
pub(crate) fn traces(config: &Config) -> Traces {
    match (&config.otlp_endpoint, config.request_ids) {
        (Some(_), _) => Traces::Record { ratio: config.otlp_ratio },
        (None, true) => Traces::PassOn,
        (None, false) => Traces::Off,
    }
}

/// Logs each request and sends its span, until the result is dropped after the server has ended.
/// Dropping it sends the remaining spans.
pub(crate) fn start(
    builder: Builder,
    config: &Config,
    replica: &str,
) -> io::Result<(Builder, Option<Exporter>)> {
    let Some(endpoint) = &config.otlp_endpoint else {
        return Ok((builder.observer(log_only), None));
    };
    let (spans, tls) = (Spans::default(), config.tls_certificate.is_some());
    let resource = otlp::resource(replica);
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
