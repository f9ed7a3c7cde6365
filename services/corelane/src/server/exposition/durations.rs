//! Request duration histograms, written as text because `prometheus_client` supports exemplars only
//! for its own histograms.

use std::fmt::{self, Write};

use crate::metrics::{Exemplar, Family, Histogram};
use crate::server::shared::Shared;

const DURATION: Family = Family::histogram(
    "corelane_request_duration_seconds",
    "Time from a request's header to the head of its response, excluding the write phase",
);

pub(super) fn append(out: &mut String, shared: &Shared) -> fmt::Result {
    let (name, help) = DURATION.text();
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram")?;
    for (lane, shared_of_lane) in shared.lanes.iter().enumerate() {
        for (index, histogram) in shared_of_lane.metrics.durations() {
            let route = shared.routes().name(index);
            let route = route.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels = format!("lane=\"{lane}\",route=\"{route}\"");
            let exemplars = shared_of_lane.metrics.exemplars(index);
            write(out, (name, &labels), histogram, |bucket| exemplars?.read(bucket))?;
        }
    }
    Ok(())
}

fn write(
    out: &mut String,
    (name, labels): (&str, &str),
    histogram: &Histogram,
    exemplar: impl Fn(usize) -> Option<Exemplar>,
) -> fmt::Result {
    let (sum, count, buckets) = histogram.read();
    writeln!(out, "{name}_sum{{{labels}}} {sum:?}")?;
    writeln!(out, "{name}_count{{{labels}}} {count}")?;
    let mut cumulative = 0;
    for (index, (bound, count)) in buckets.into_iter().enumerate() {
        cumulative += count;
        match bound.is_finite() {
            true => write!(out, "{name}_bucket{{{labels},le=\"{bound:?}\"}} {cumulative}")?,
            false => write!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {cumulative}")?,
        }
        if let Some(Exemplar { trace, seconds, at }) = exemplar(index) {
            write!(out, " # {{trace_id=\"{trace:032x}\"}} {seconds:?} {at:.3}")?;
        }
        out.push('\n');
    }
    Ok(())
}
