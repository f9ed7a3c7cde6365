//! Passes spans from lanes to the sending thread.
//!
//! Each lane has its own queue and never has to wake the thread, because the thread polls. Lanes
//! therefore share no state. If the thread is too slow, spans are dropped and counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use corelane::prometheus_client::collector::Collector;
use corelane::prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use corelane::prometheus_client::metrics::counter::ConstCounter;
use corelane::{Finished, RequestId, Times};
use http::{HeaderValue, Version};

use super::exporter::Fate;

const QUEUE: usize = 2048;

#[derive(Debug)]
pub(super) struct Record {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) parent: Option<[u8; 8]>,
    pub(super) flags: u8,
    pub(super) state: Option<String>,
    pub(super) id: Option<RequestId>,
    pub(super) method: &'static str,
    pub(super) route: Box<str>,
    pub(super) scheme: &'static str,
    pub(super) version: &'static str,
    pub(super) server: Option<(String, Option<u16>)>,
    pub(super) status: Option<u16>,
    pub(super) complete: bool,
    pub(super) body_bytes: u64,
    pub(super) lane: usize,
    pub(super) times: Times,
    pub(super) began: SystemTime,
    pub(super) ended: SystemTime,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Locked by a lane when it starts, by the sending thread, and by a scrape.
    lanes: Mutex<Vec<Output>>,
    exported: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
}

#[derive(Debug)]
struct Output {
    records: Receiver<Box<Record>>,
    full: Arc<AtomicU64>,
}

pub(super) struct Input {
    lane: usize,
    tls: bool,
    records: SyncSender<Box<Record>>,
    /// Written only by this lane.
    full: Arc<AtomicU64>,
}

impl Spans {
    /// Creates the queue of a lane. `tls`: whether its port uses TLS.
    pub(super) fn queue(&self, lane: usize, tls: bool) -> Input {
        let (sender, receiver) = sync_channel(QUEUE);
        let full = Arc::new(AtomicU64::new(0));
        let output = Output { records: receiver, full: Arc::clone(&full) };
        self.lanes().push(output);
        Input { lane, tls, records: sender, full }
    }

    fn lanes(&self) -> std::sync::MutexGuard<'_, Vec<Output>> {
        self.0.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up to `most` spans. Each call starts with a different lane, so that no lane starves if
    /// the collector is slow.
    pub(super) fn take(&self, most: usize) -> Vec<Record> {
        let mut lanes = self.lanes();
        let next = lanes.len().min(1);
        lanes.rotate_left(next);
        let waiting = lanes.iter().flat_map(|lane| lane.records.try_iter());
        waiting.take(most).map(|record| *record).collect()
    }

    pub(super) fn count(&self, spans: u64, fate: Fate) {
        let Inner { exported, refused, unreachable, .. } = &*self.0;
        let count = match fate {
            Fate::Exported => exported,
            Fate::Refused => refused,
            Fate::Unreachable => unreachable,
        };
        count.fetch_add(spans, Relaxed);
    }
}

impl Input {
    /// Queues the request's span, if any.
    pub(super) fn note(&self, request: &Finished<'_>) {
        let Some(record) = self.record(request) else { return };
        if self.records.try_send(Box::new(record)).is_err() {
            self.full.store(self.full.load(Relaxed) + 1, Relaxed);
        }
    }

    fn record(&self, request: &Finished<'_>) -> Option<Record> {
        let (trace, span) = (request.trace?, request.span?);
        let (began, times) = (request.began(), request.times);
        let parts = [times.queue].into_iter().chain(times.handler).chain(times.write);
        Some(Record {
            trace: trace.trace_id(),
            span: trace.span_id(),
            parent: span.parent,
            flags: trace.flags(),
            // The state is copied, because a reference would keep the entire read buffer alive.
            state: trace.tracestate().and_then(|state| Some(state.to_str().ok()?.to_owned())),
            server: span.authority.and_then(server),
            id: request.id(),
            method: request.method,
            route: request.route.into(),
            scheme: if self.tls { "https" } else { "http" },
            version: match request.version {
                Version::HTTP_2 => "2",
                Version::HTTP_10 => "1.0",
                _ => "1.1",
            },
            status: request.status.map(|status| status.as_u16()),
            complete: request.complete,
            body_bytes: request.body_bytes,
            lane: self.lane,
            times,
            began,
            ended: began + parts.sum::<Duration>(),
        })
    }
}

/// A request's host and port. Ignores names longer than DNS allows.
fn server(authority: &HeaderValue) -> Option<(String, Option<u16>)> {
    let text = authority.to_str().ok().filter(|text| text.len() <= 253 + ":65535".len())?;
    let authority: http::uri::Authority = text.parse().ok()?;
    Some((authority.host().to_owned(), authority.port_u16()))
}

impl Collector for Spans {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let exported = ConstCounter::new(self.0.exported.load(Relaxed));
        let text = "Spans that a collector accepted";
        let metric =
            out.encode_descriptor("corelane_spans_exported", text, None, exported.metric_type())?;
        exported.encode(metric)?;
        let full = self.lanes().iter().map(|lane| lane.full.load(Relaxed)).sum::<u64>();
        let reasons = [
            ("queue_full", full),
            ("refused", self.0.refused.load(Relaxed)),
            ("unreachable", self.0.unreachable.load(Relaxed)),
        ];
        let text = "Spans that were dropped, by reason";
        let kind = exported.metric_type();
        let mut family = out.encode_descriptor("corelane_spans_dropped", text, None, kind)?;
        for (reason, spans) in reasons {
            ConstCounter::new(spans).encode(family.encode_family(&[("reason", reason)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(lane: usize) -> Record {
        let now = SystemTime::UNIX_EPOCH;
        Record {
            trace: [1; 16],
            span: [1; 8],
            parent: None,
            flags: 1,
            state: None,
            id: None,
            method: "GET",
            route: "/".into(),
            scheme: "http",
            version: "1.1",
            server: None,
            status: Some(200),
            complete: true,
            body_bytes: 0,
            lane,
            times: Times::default(),
            began: now,
            ended: now,
        }
    }

    #[test]
    fn each_lane_comes_first_in_turn() {
        let spans = Spans::default();
        assert!(spans.take(1).is_empty());
        let lanes: Vec<_> = (0..3).map(|lane| spans.queue(lane, false)).collect();
        for lane in &lanes {
            for _ in 0..2 {
                lane.records.try_send(Box::new(record(lane.lane))).expect("room");
            }
        }
        let mut taken: Vec<_> = (0..3).flat_map(|_| spans.take(1)).map(|span| span.lane).collect();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
        assert_eq!(spans.take(9).len(), 3);
    }

    #[test]
    fn the_server_is_named_as_the_client_does() {
        let named = |text: &'static str| server(&HeaderValue::from_static(text));
        assert_eq!(named("shop.test:8080"), Some(("shop.test".to_owned(), Some(8080))));
        assert_eq!(named("[::1]"), Some(("[::1]".to_owned(), None)));
        assert_eq!(named("not a host"), None);
        let long = HeaderValue::from_str(&"x".repeat(300)).expect("a header value");
        assert_eq!(server(&long), None);
    }
}
