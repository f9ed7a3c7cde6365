//! Counts responses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use crate::exchange::Kind;
use crate::pool::{Answer, Lost, Pool};
use crate::reply::Fault;

const PERCENTILES: [f64; 7] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

const DIGITS: u8 = 3;

#[derive(Debug)]
pub(crate) struct Tally {
    latencies: BTreeMap<Kind, Histogram<u64>>,
    faults: BTreeMap<Fault, u64>,
    lanes: BTreeMap<usize, u64>,
    /// The generator's own lag: how late it processed a request.
    lag: Histogram<u64>,
    /// Time until a connection is established, if observed.
    connects: Histogram<u64>,
    /// Time from the start of a connection to its first response, including the wait in the accept
    /// queue.
    first_replies: Histogram<u64>,
    queued: u64,
    /// Requests that were due but not sent before the end.
    cut: u64,
    reopened: u64,
    took: Duration,
    /// Every answer, if answers are reported one by one.
    samples: Option<Samples>,
}

#[derive(Debug)]
struct Samples {
    begun: Instant,
    due_ms: Vec<f64>,
    latency_ms: Vec<f64>,
    work: Vec<u8>,
    right: Vec<u8>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            latencies: BTreeMap::new(),
            faults: BTreeMap::new(),
            lanes: BTreeMap::new(),
            lag: histogram(),
            connects: histogram(),
            first_replies: histogram(),
            queued: 0,
            cut: 0,
            reopened: 0,
            took: Duration::ZERO,
            samples: None,
        }
    }
}

impl Samples {
    fn add(&mut self, answer: &Answer) {
        let ms = |time: Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
        self.due_ms.push(ms(answer.due - self.begun));
        self.latency_ms.push(ms(answer.read - answer.due));
        self.work.push(u8::from(answer.kind != Kind::Hello));
        self.right.push(u8::from(answer.fault.is_none()));
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("a valid number of digits")
}

impl Tally {
    pub(crate) fn with_samples(begun: Instant) -> Self {
        let (due_ms, latency_ms) = (Vec::new(), Vec::new());
        let samples = Samples { begun, due_ms, latency_ms, work: Vec::new(), right: Vec::new() };
        Tally { samples: Some(samples), ..Tally::default() }
    }

    pub(crate) fn start(&mut self, lag: Duration, queued: bool) {
        record(&mut self.lag, lag);
        self.queued += u64::from(queued);
    }

    pub(crate) fn connected(&mut self, took: Duration) {
        record(&mut self.connects, took);
    }

    pub(crate) fn first_reply(&mut self, took: Duration) {
        record(&mut self.first_replies, took);
    }

    /// Only a correct answer has a latency.
    pub(crate) fn add(&mut self, answer: &Answer) {
        match answer.fault {
            Some(fault) => self.fault(fault, 1),
            None => {
                let latencies = self.latencies.entry(answer.kind).or_insert_with(histogram);
                record(latencies, answer.read - answer.due);
            }
        }
        if let Some(samples) = &mut self.samples {
            samples.add(answer);
        }
        if let Some(lane) = answer.lane {
            *self.lanes.entry(lane).or_default() += 1;
        }
    }

    pub(crate) fn give_up(&mut self, pool: &mut Pool) -> Result<(), Lost> {
        let lost = pool.give_up()?;
        self.unsent(lost);
        Ok(())
    }

    /// Requests that were never answered.
    pub(crate) fn unsent(&mut self, count: usize) {
        self.fault(Fault::Silence, count as u64);
    }

    pub(crate) fn cut(&mut self, count: usize) {
        self.cut += count as u64;
    }

    pub(crate) fn fault(&mut self, fault: Fault, count: u64) {
        *self.faults.entry(fault).or_default() += count;
    }

    pub(crate) fn end(&mut self, reopened: u64, took: Duration) {
        self.took = took;
        self.reopened = reopened;
    }

    pub(crate) fn faults(&self) -> Map<String, Value> {
        self.faults.iter().map(|(fault, count)| (fault.name(), json!(count))).collect()
    }

    fn by_name(&self) -> Map<String, Value> {
        let mut merged: BTreeMap<&str, Histogram<u64>> = BTreeMap::new();
        for (kind, latencies) in &self.latencies {
            for name in ["all", kind.name()] {
                let sum = merged.entry(name).or_insert_with(histogram);
                sum.add(latencies).expect("histograms of the same make");
            }
        }
        merged.iter().map(|(name, latencies)| ((*name).into(), summary(latencies))).collect()
    }

    pub(crate) fn json(&self, own_cpu: Duration) -> String {
        let right: u64 = self.latencies.values().map(Histogram::len).sum();
        let wrong: u64 = self.faults.values().sum();
        let lanes: Map<_, _> =
            self.lanes.iter().map(|(lane, count)| (lane.to_string(), json!(count))).collect();
        let mut report = json!({
            "requests": right + wrong,
            "wrong": wrong,
            "faults": self.faults(),
            "seconds": self.took.as_secs_f64(),
            "requests_per_second": (right + wrong) as f64 / self.took.as_secs_f64(),
            "generator_cpu_seconds": own_cpu.as_secs_f64(),
            "latency_us": self.by_name(),
            "lag_us": summary(&self.lag),
            "connect_us": summary(&self.connects),
            "first_reply_us": summary(&self.first_replies),
            "queued": self.queued,
            "cut": self.cut,
            "reopened": self.reopened,
            "lanes": lanes,
        });
        if let Some(samples) = &self.samples {
            report["samples"] = json!({
                "due_ms": samples.due_ms,
                "latency_ms": samples.latency_ms,
                "work": samples.work,
                "right": samples.right,
            });
        }
        report.to_string()
    }
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    // An auto-resizing histogram accepts every value.
    let _ = histogram.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

fn microseconds(nanoseconds: f64) -> Value {
    json!((nanoseconds / 10.0).round() / 100.0)
}

fn summary(times: &Histogram<u64>) -> Value {
    let mut fields = Map::new();
    fields.insert("count".into(), json!(times.len()));
    fields.insert("mean".into(), microseconds(times.mean()));
    fields.insert("sd".into(), microseconds(times.stdev()));
    for percentile in PERCENTILES {
        let value = times.value_at_percentile(percentile) as f64;
        fields.insert(percentile.to_string(), microseconds(value));
    }
    fields.into()
}

pub(crate) fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
