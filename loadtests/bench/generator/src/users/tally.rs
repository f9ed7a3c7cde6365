//! Counts replies. Every time is kept, so percentiles are exact.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::user::{Fault, Kind};

/// The reported percentiles, enough for a curve.
const PERCENTILES: [f64; 18] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.8, 99.9,
    99.95, 100.0,
];

/// The results of one part.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Latencies of correct replies by kind.
    latencies: [Vec<Duration>; Kind::ALL.len()],
    /// From the start of a connection until it is established.
    pub(crate) connects: Vec<Duration>,
    /// From the start of a connection until its first reply, including the wait for the accept.
    pub(crate) firsts: Vec<Duration>,
    /// How long after it was due a request was processed: the generator's own lag.
    pub(crate) lags: Vec<Duration>,
    faults: BTreeMap<(Kind, Fault), u64>,
    /// Replies by the lane that they name.
    lanes: BTreeMap<usize, u64>,
    /// Connections that were opened again.
    pub(crate) reopened: u64,
    pub(crate) took: Duration,
}

impl Tally {
    pub(crate) fn right(&mut self, kind: Kind, latency: Duration) {
        self.latencies[kind as usize].push(latency);
    }

    pub(crate) fn wrong(&mut self, kind: Kind, fault: Fault) {
        *self.faults.entry((kind, fault)).or_default() += 1;
    }

    pub(crate) fn lane(&mut self, lane: usize) {
        *self.lanes.entry(lane).or_default() += 1;
    }

    /// The number of failed requests.
    pub(crate) fn errors(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The report.
    pub(crate) fn json(mut self, own_cpu: Duration) -> Value {
        let all: Vec<_> = self.latencies.concat();
        let requests = all.len() as u64 + self.errors();
        let mut latency = Map::new();
        for (kind, times) in Kind::ALL.iter().zip(&mut self.latencies) {
            if !times.is_empty() {
                latency.insert(kind.name().into(), summary(times));
            }
        }
        let faults: Map<_, _> = self
            .faults
            .iter()
            .map(|((kind, fault), count)| {
                (format!("{}: {}", kind.name(), fault.name()), json!(count))
            })
            .collect();
        latency.insert("all".into(), summary(&mut { all }));
        json!({
            "requests": requests,
            "errors": self.errors(),
            "faults": faults,
            "seconds": self.took.as_secs_f64(),
            "requests_per_second": requests as f64 / self.took.as_secs_f64(),
            "generator_cpu_seconds": own_cpu.as_secs_f64(),
            "latency_ms": latency,
            "connect_ms": summary(&mut self.connects),
            "first_reply_ms": summary(&mut self.firsts),
            "lag_ms": summary(&mut self.lags),
            "reopened": self.reopened,
            "lanes": self.lanes.iter().map(|(lane, count)| (lane.to_string(), json!(count)))
                .collect::<Map<_, _>>(),
        })
    }
}

/// Count, mean, standard deviation and percentiles, in milliseconds.
fn summary(times: &mut [Duration]) -> Value {
    times.sort_unstable();
    let mut fields = Map::new();
    fields.insert("count".into(), json!(times.len()));
    if times.is_empty() {
        return fields.into();
    }
    let ms = |time: f64| json!((time * 1e6).round() / 1e3);
    let count = times.len() as f64;
    let mean = times.iter().map(Duration::as_secs_f64).sum::<f64>() / count;
    let variance =
        times.iter().map(|time| (time.as_secs_f64() - mean).powi(2)).sum::<f64>() / count;
    fields.insert("mean".into(), ms(mean));
    fields.insert("sd".into(), ms(variance.sqrt()));
    for percentile in PERCENTILES {
        // The smallest time that this share does not exceed.
        let rank = (percentile / 100.0 * count).ceil().max(1.0) as usize;
        fields.insert(percentile.to_string(), ms(times[rank - 1].as_secs_f64()));
    }
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_and_deviation_are_exact() {
        let mut tally = Tally { took: Duration::from_secs(2), ..Tally::default() };
        for ms in (1..=100).rev() {
            tally.right(Kind::Page, Duration::from_millis(ms));
        }
        tally.wrong(Kind::Save, Fault::Status(503));
        let report = tally.json(Duration::ZERO);
        let page = &report["latency_ms"]["page"];
        for (percentile, want) in [("0", 1.0), ("50", 50.0), ("99", 99.0), ("100", 100.0)] {
            assert_eq!(page[percentile], json!(want), "{percentile}");
        }
        assert_eq!(page["mean"], json!(50.5));
        assert_eq!(page["sd"], json!(28.866));
        assert_eq!(report["requests"], json!(101));
        assert_eq!(report["errors"], json!(1));
        assert_eq!(report["faults"]["save: status 503"], json!(1));
    }
}
