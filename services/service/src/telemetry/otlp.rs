//! OTLP messages for spans, and the parts shared with metrics. Numbers and names come from
//! opentelemetry/proto/trace/v1/trace.proto and its imports.

use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;

use super::Source;
use super::exporter::{Batch, Fate, Signal};
use super::spans::{Record, Spans};

const BATCH: usize = 512;

pub(super) struct Sent {
    pub(super) spans: Spans,
    pub(super) resource: Resource,
}

impl Signal for Sent {
    const NAME: &'static str = "spans";

    fn next(&mut self) -> Option<Batch> {
        let records = self.spans.take(BATCH);
        let batch = || Batch {
            items: records.len() as u64,
            request: request(&self.resource, &records).into(),
            more: records.len() == BATCH,
        };
        (!records.is_empty()).then(batch)
    }

    fn count(&self, spans: u64, fate: Fate) {
        self.spans.count(spans, fate);
    }
}

/// opentelemetry/proto/collector/trace/v1/trace_service.proto.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(fixed64, tag = "1")]
    time_unix_nano: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(bool, tag = "2")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    Number(i64),
}

const SERVER: i32 = 2;

const ERROR: i32 = 2;

/// `SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK` and `SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK`: the parent is
/// known to be in another process.
const KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Value::Text(value.to_owned()))
}

fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    pair(key, Value::Number(value.into()))
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

pub(super) fn resource(source: &Source<'_>) -> Resource {
    let attributes = vec![
        text("service.name", source.name),
        text("service.version", source.version),
        text("service.instance.id", source.replica),
    ];
    Resource { attributes }
}

pub(super) fn scope() -> Scope {
    Scope { name: "corelane".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn request(resource: &Resource, records: &[Record]) -> Vec<u8> {
    let spans = records.iter().map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource.clone()), scope_spans }];
    ExportRequest { resource_spans }.encode_to_vec()
}

fn span(record: &Record) -> Span {
    let failed = record.status.is_some_and(|status| status >= 500);
    let known = record.method != "other";
    let method = if known { record.method } else { "HTTP" };
    let name = match &*record.route {
        "other" => method.to_owned(),
        route => format!("{method} {route}"),
    };
    let remote = if record.parent.is_some() { REMOTE } else { 0 };
    Span {
        trace_id: record.trace.to_vec(),
        span_id: record.span.to_vec(),
        trace_state: record.state.clone().unwrap_or_default(),
        parent_span_id: record.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
        name,
        kind: SERVER,
        start_time_unix_nano: nanos(record.began),
        end_time_unix_nano: nanos(record.ended),
        attributes: attributes(record),
        events: events(record),
        status: failed.then_some(Status { code: ERROR }),
        flags: u32::from(record.flags) | KNOWN | remote,
    }
}

/// OpenTelemetry's semantic conventions for HTTP servers, and our own attributes. Omits the
/// request's path and query, which may contain secrets.
fn attributes(record: &Record) -> Vec<KeyValue> {
    let known = record.method != "other";
    let mut attributes = vec![
        text("http.request.method", if known { record.method } else { "_OTHER" }),
        text("url.scheme", record.scheme),
        text("network.protocol.version", record.version),
        number("http.response.body.size", record.body_bytes as i64),
        number("corelane.lane", record.lane as i64),
        pair("corelane.complete", Value::Truth(record.complete)),
    ];
    if &*record.route != "other" {
        attributes.push(text("http.route", &record.route));
    }
    if let Some(status) = record.status {
        attributes.push(number("http.response.status_code", status));
        if status >= 500 {
            attributes.push(text("error.type", &status.to_string()));
        }
    }
    if let Some(id) = &record.id {
        attributes.push(text("corelane.request_id", id.as_str()));
    }
    if let Some((host, port)) = &record.server {
        attributes.push(text("server.address", host));
        attributes.extend(port.map(|port| number("server.port", port)));
    }
    attributes
}

fn events(record: &Record) -> Vec<Event> {
    let event =
        |name: &str, at: SystemTime| Event { time_unix_nano: nanos(at), name: name.to_owned() };
    let mut events = Vec::new();
    if let Some(handler) = record.times.handler {
        let started = record.began + record.times.queue;
        events.push(event("handler started", started));
        if record.status.is_some() {
            events.push(event("reply made", started + handler));
        }
    }
    events
}

pub(super) fn nanos(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
