//! Process metrics as OTLP messages, created from the text of `/metrics`. Numbers and names come
//! from opentelemetry/proto/metrics/v1/metrics.proto, and the rules from OpenTelemetry's
//! "Prometheus and OpenMetrics Compatibility". Names match `/metrics`, so that queries and
//! dashboards work on both.

use std::time::SystemTime;

use prost::Message;

use super::exporter::{Batch, Fate, Signal};
use super::otlp::{KeyValue, Resource, Scope, nanos, scope, text};

#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Number>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Number>,
    #[prost(int32, tag = "2")]
    temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    points: Vec<Buckets>,
    #[prost(int32, tag = "2")]
    temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(oneof = "Value", tags = "4, 6")]
    value: Option<Value>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
enum Value {
    #[prost(double, tag = "4")]
    Real(f64),
    #[prost(sfixed64, tag = "6")]
    Whole(i64),
}

#[derive(Clone, PartialEq, Message)]
struct Buckets {
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    bounds: Vec<f64>,
}

const CUMULATIVE: i32 = 2;

/// The content of `/metrics`, with the attributes that all series share.
pub(super) struct Sent<F> {
    pub(super) page: F,
    pub(super) resource: Resource,
    /// Time at which the counters were 0.
    pub(super) start: SystemTime,
}

impl<F: Fn() -> String + Send + 'static> Signal for Sent<F> {
    const NAME: &'static str = "metrics";

    fn next(&mut self) -> Option<Batch> {
        let times = Times { start: self.start, now: SystemTime::now() };
        let (request, items) = request(&self.resource, &(self.page)(), times);
        Some(Batch { items, request: request.into(), more: false })
    }

    /// Not counted as lost, because values are cumulative and the next request includes them.
    fn count(&self, _points: u64, _fate: Fate) {}
}

#[derive(Clone, Copy)]
struct Times {
    start: SystemTime,
    now: SystemTime,
}

/// Encodes an OpenMetrics page. Also returns the number of points.
fn request(resource: &Resource, page: &str, times: Times) -> (Vec<u8>, u64) {
    let families = families(page, times);
    let points: usize = families.iter().map(Family::points).sum();
    let metrics = families.into_iter().filter_map(Family::metric).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource.clone()), scope_metrics }];
    (ExportRequest { resource_metrics }.encode_to_vec(), points as u64)
}

#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    unit: &'a str,
    /// The name of the family's series, which may have a suffix, such as `_total`.
    series: &'a str,
    numbers: Vec<Number>,
    buckets: Vec<Buckets>,
}

fn families(page: &str, times: Times) -> Vec<Family<'_>> {
    let mut found: Vec<Family<'_>> = Vec::new();
    for line in page.lines() {
        if let Some((name, help)) = declared(line, "# HELP ") {
            found.push(Family { name, help, ..Family::default() });
            continue;
        }
        let Some(family) = found.last_mut() else { continue };
        if let Some((_, kind)) = declared(line, "# TYPE ") {
            family.kind = kind;
        } else if let Some((_, unit)) = declared(line, "# UNIT ") {
            family.unit = unit;
        } else if let Some(sample) = sample(line) {
            family.add(sample, times);
        }
    }
    found
}

fn declared<'a>(line: &'a str, what: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(what)?.split_once(' ')
}

struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // An exemplar may follow.
    let value = rest.split_ascii_whitespace().next()?;
    (name != "#").then_some(Sample { name, labels, value })
}

/// Returns the labels by name, and the text that follows the closing brace.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        text = text.trim_start_matches(',');
        if let Some(rest) = text.strip_prefix('}') {
            return Some((found, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let (mut value, mut chars) = (String::new(), rest.chars());
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => value.push(Some(chars.next()?).filter(|&c| c != 'n').unwrap_or('\n')),
                c => value.push(c),
            }
        }
        text = chars.as_str();
        found.push((name, value));
    }
}

impl<'a> Family<'a> {
    fn add(&mut self, sample: Sample<'a>, times: Times) {
        let Sample { name, labels, value } = sample;
        let bound = labels.iter().find(|(name, _)| *name == "le").map(|(_, bound)| bound.parse());
        let attributes = || labels.iter().map(|(name, value)| text(name, value)).collect();
        let (start, now) = (nanos(times.start), nanos(times.now));
        match (self.kind, name.strip_prefix(self.name), self.buckets.last_mut()) {
            // The first line of each series.
            ("histogram", Some("_sum"), _) => self.buckets.push(Buckets {
                attributes: attributes(),
                start_time_unix_nano: start,
                time_unix_nano: now,
                sum: value.parse().ok(),
                ..Buckets::default()
            }),
            ("histogram", Some("_count"), Some(last)) => last.count = value.parse().unwrap_or(0),
            ("histogram", Some("_bucket"), Some(last)) => {
                // The page's buckets are cumulative, but OTLP's buckets are not.
                let below: u64 = last.counts.iter().sum();
                last.counts.push(value.parse::<u64>().unwrap_or(0).saturating_sub(below));
                last.bounds.extend(bound.and_then(Result::ok).filter(|at: &f64| at.is_finite()));
            }
            ("histogram", ..) => {}
            (kind, ..) => {
                let whole = value.parse().ok().map(Value::Whole);
                self.series = name;
                self.numbers.push(Number {
                    attributes: attributes(),
                    start_time_unix_nano: if kind == "gauge" { 0 } else { start },
                    time_unix_nano: now,
                    value: whole.or_else(|| value.parse().ok().map(Value::Real)),
                });
            }
        }
    }

    fn points(&self) -> usize {
        self.numbers.len() + self.buckets.len()
    }

    /// `None` if the family is empty.
    fn metric(self) -> Option<Metric> {
        if self.points() == 0 {
            return None;
        }
        let unit = self.ucum();
        let Family { name, help, kind, series, numbers, buckets, .. } = self;
        let (name, data) = match kind {
            "histogram" => {
                (name, Data::Histogram(Histogram { points: buckets, temporality: CUMULATIVE }))
            }
            "counter" | "info" => {
                let is_monotonic = kind == "counter";
                (series, Data::Sum(Sum { points: numbers, temporality: CUMULATIVE, is_monotonic }))
            }
            _ => (series, Data::Gauge(Gauge { points: numbers })),
        };
        let description = help.trim_end_matches('.').to_owned();
        Some(Metric { name: name.to_owned(), description, unit, data: Some(data) })
    }

    /// The family's unit, or the unit at the end of its name, in the Unified Code for Units of
    /// Measure.
    fn ucum(&self) -> String {
        let (stem, last) = self.name.rsplit_once('_').unwrap_or(("", self.name));
        let unit = match if self.unit.is_empty() { last } else { self.unit } {
            "seconds" => "s",
            "bytes" => "By",
            "ratio" | "ratios" => "1",
            "celsius" => "Cel",
            "meters" => "m",
            "grams" => "g",
            "joules" => "J",
            "volts" => "V",
            "amperes" => "A",
            _ => self.unit,
        };
        if stem.ends_with("_squared") { format!("{unit}2") } else { unit.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use corelane::prometheus_client::encoding::text::encode;
    use corelane::prometheus_client::metrics::counter::Counter;
    use corelane::prometheus_client::metrics::family;
    use corelane::prometheus_client::metrics::gauge::Gauge;
    use corelane::prometheus_client::metrics::histogram;
    use corelane::prometheus_client::metrics::info::Info;
    use corelane::prometheus_client::registry::{Registry, Unit};

    use super::*;

    fn metrics(registry: &Registry) -> Vec<Metric> {
        let mut page = String::new();
        encode(&mut page, registry).expect("text");
        let start = SystemTime::UNIX_EPOCH + Duration::from_nanos(5);
        let times = Times { start, now: start + Duration::from_nanos(2) };
        let (request, points) = request(&Resource::default(), &page, times);
        let request = ExportRequest::decode(request.as_slice()).expect("a message");
        let metrics = request.resource_metrics[0].scope_metrics[0].metrics.clone();
        assert!(points >= metrics.len() as u64);
        metrics
    }

    #[test]
    fn each_kind_of_metric_has_its_message() {
        let mut registry = Registry::default();
        let orders = family::Family::<Vec<(&str, &str)>, Counter>::default();
        orders.get_or_create(&vec![("by", "a\"b\\c\nd, e}")]).inc_by(3);
        registry.register("orders", "Orders", orders);
        let level = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        level.set(f64::INFINITY);
        registry.register("level_bytes", "Level", level);
        registry.register(
            "none",
            "No series",
            family::Family::<Vec<(&str, &str)>, Counter>::default(),
        );
        registry.register("build", "Build", Info::new([("version", "1")]));
        let waits = histogram::Histogram::new([0.5, 2.0]);
        [0.1, 0.2, 1.0, 9.0].into_iter().for_each(|wait| waits.observe(wait));
        registry.register_with_unit("waits", "Waits", Unit::Seconds, waits);
        let found = metrics(&registry);
        let names: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.unit.as_str())).collect();
        let names_wanted = [
            ("orders_total", ""),
            ("level_bytes", "By"),
            ("build_info", ""),
            ("waits_seconds", "s"),
        ];
        assert_eq!(names, names_wanted);
        assert_eq!(found[0].description, "Orders");

        let Some(Data::Sum(orders)) = &found[0].data else { panic!("{:?}", found[0]) };
        assert_eq!((orders.temporality, orders.is_monotonic), (CUMULATIVE, true));
        let point = &orders.points[0];
        assert_eq!(point.attributes, [text("by", "a\"b\\c\nd, e}")]);
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 7));
        assert_eq!(point.value, Some(Value::Whole(3)));

        let Some(Data::Gauge(level)) = &found[1].data else { panic!("{:?}", found[1]) };
        assert_eq!(level.points[0].value, Some(Value::Real(f64::INFINITY)));
        assert_eq!(level.points[0].start_time_unix_nano, 0);

        let Some(Data::Sum(build)) = &found[2].data else { panic!("{:?}", found[2]) };
        assert!(!build.is_monotonic && build.points[0].value == Some(Value::Whole(1)));

        let Some(Data::Histogram(waits)) = &found[3].data else { panic!("{:?}", found[3]) };
        let point = &waits.points[0];
        assert_eq!((point.count, point.sum), (4, Some(10.3)));
        assert_eq!((&point.counts[..], &point.bounds[..]), (&[2, 1, 1][..], &[0.5, 2.0][..]));
    }
}
