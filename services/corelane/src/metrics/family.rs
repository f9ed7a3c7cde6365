//! Metric families: name, type and help, and the encoding of their series.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::shard::Histogram;

/// In OpenMetrics, `_total` is a suffix of a counter's series and not part of the family name, so
/// it is omitted here.
#[derive(Debug)]
pub(crate) struct Family {
    kind: FamilyKind,
    name: &'static str,
    help: &'static str,
}

#[derive(Clone, Copy, Debug)]
enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Value::Whole(value)
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Value::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}

impl From<Duration> for Value {
    fn from(value: Duration) -> Self {
        Value::Real(value.as_secs_f64())
    }
}

pub(crate) type Labels<'a> = &'a [(&'static str, &'a str)];

pub(crate) const fn counter<R>(name: &'static str, help: &'static str, read: R) -> (Family, R) {
    (Family::counter(name, help), read)
}

pub(crate) const fn gauge<R>(name: &'static str, help: &'static str, read: R) -> (Family, R) {
    (Family::gauge(name, help), read)
}

impl Family {
    pub(crate) const fn counter(name: &'static str, help: &'static str) -> Self {
        Family { kind: FamilyKind::Counter, name, help }
    }

    pub(crate) const fn gauge(name: &'static str, help: &'static str) -> Self {
        Family { kind: FamilyKind::Gauge, name, help }
    }

    pub(crate) const fn histogram(name: &'static str, help: &'static str) -> Self {
        Family { kind: FamilyKind::Histogram, name, help }
    }

    pub(crate) fn text(&self) -> (&'static str, &'static str) {
        (self.name, self.help)
    }

    pub(crate) fn begin<'a>(
        &self,
        out: &'a mut DescriptorEncoder<'_>,
    ) -> Result<Series<'a>, fmt::Error> {
        let kind = match self.kind {
            FamilyKind::Counter => MetricType::Counter,
            FamilyKind::Gauge => MetricType::Gauge,
            FamilyKind::Histogram => MetricType::Histogram,
        };
        let encoder = out.encode_descriptor(self.name, self.help, None, kind)?;
        Ok(Series { kind: self.kind, encoder })
    }

    pub(crate) fn single(
        &self,
        out: &mut DescriptorEncoder<'_>,
        value: impl Into<Value>,
    ) -> fmt::Result {
        let Series { kind, encoder } = self.begin(out)?;
        write(kind, encoder, value.into())
    }
}

pub(crate) struct Series<'a> {
    kind: FamilyKind,
    encoder: MetricEncoder<'a>,
}

impl Series<'_> {
    pub(crate) fn add(&mut self, labels: Labels<'_>, value: impl Into<Value>) -> fmt::Result {
        write(self.kind, self.encoder.encode_family(&labels)?, value.into())
    }

    pub(crate) fn add_histogram(
        &mut self,
        labels: Labels<'_>,
        histogram: &Histogram,
    ) -> fmt::Result {
        let (sum, count, buckets) = histogram.read();
        let mut encoder = self.encoder.encode_family(&labels)?;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }
}

fn write(kind: FamilyKind, mut encoder: MetricEncoder<'_>, value: Value) -> fmt::Result {
    match (kind, value) {
        (FamilyKind::Counter, Value::Whole(n)) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&n, None)
        }
        (FamilyKind::Counter, Value::Real(x)) => {
            encoder.encode_counter::<NoLabelSet, _, f64>(&x, None)
        }
        (FamilyKind::Gauge, Value::Whole(n)) => encoder.encode_gauge(&n),
        (FamilyKind::Gauge, Value::Real(x)) => encoder.encode_gauge(&x),
        (FamilyKind::Histogram, _) => unreachable!("a histogram has more than one value"),
    }
}
