//! One lane's counters: written by its thread alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use http::{Method, StatusCode};

/// A number with one writer: a plain load and store, without the lock prefix of `fetch_add`.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Only the thread of the owning lane may call this.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Only the thread of the owning lane may call this.
    pub(crate) fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the duration buckets in seconds; `+Inf` follows.
pub(super) const BOUNDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// A duration histogram with the buckets of [`BOUNDS`].
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Count; BOUNDS.len() + 1],
    nanos: Count,
}

impl Histogram {
    fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let index = BOUNDS.partition_point(|&bound| bound < seconds);
        self.buckets[index].add(1);
        self.nanos.add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Sum in seconds, number of observations, and the count of each bucket (not cumulated).
    pub(super) fn read(&self) -> (f64, u64, Vec<(f64, u64)>) {
        let bounds = BOUNDS.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.buckets.iter().map(Count::get)).collect();
        let count = buckets.iter().map(|(_, n)| n).sum();
        (self.nanos.get() as f64 / 1e9, count, buckets)
    }
}

/// Why a connection was refused or given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// [`Limits::connections`](crate::Limits::connections) were open.
    Limit,
    /// [`Timeouts::header`](crate::Timeouts::header) ran out.
    HeaderTimeout,
    /// [`Timeouts::idle`](crate::Timeouts::idle) ran out.
    IdleTimeout,
    /// An accept failed, once or again: the system was out of files or memory.
    AcceptError,
    /// What came was not HTTP, or its header was too large: hyper answered 400 or 431.
    BadRequest,
}

impl Refusal {
    pub(super) const ALL: [(Refusal, &'static str); 5] = [
        (Refusal::Limit, "limit"),
        (Refusal::HeaderTimeout, "header_timeout"),
        (Refusal::IdleTimeout, "idle_timeout"),
        (Refusal::AcceptError, "accept_error"),
        (Refusal::BadRequest, "bad_request"),
    ];
}

/// Methods that have a label of their own; any other counts as `other`.
pub(super) const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "other"];

/// Codes that have a label of their own, ascending; any other counts as `other`.
///
/// 499 is what nginx made customary for a client that went away before its reply.
pub(super) const CODES: [u16; 36] = [
    101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408,
    409, 410, 411, 412, 413, 414, 415, 416, 422, 429, 431, 499, 500, 501, 502, 503, 504,
];

/// What a reply counts as when its client went away before it began.
pub(crate) const CLIENT_GONE: u16 = 499;

fn method_index(method: &Method) -> usize {
    let known = METHODS.len() - 1;
    METHODS[..known].iter().position(|name| *name == method.as_str()).unwrap_or(known)
}

/// The counters of one lane. Aligned to two cache lines, which the CPU prefetches as a pair.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LaneMetrics {
    pub(crate) accepted: Count,
    pub(crate) open: Count,
    pub(crate) in_flight: Count,
    pub(crate) panics: Count,
    refused: [Count; Refusal::ALL.len()],
    /// By route, then method, then code.
    requests: Vec<Count>,
    durations: Vec<Histogram>,
}

impl LaneMetrics {
    pub(crate) fn new(routes: usize) -> Self {
        let cells = routes * METHODS.len() * (CODES.len() + 1);
        LaneMetrics {
            accepted: Count::default(),
            open: Count::default(),
            in_flight: Count::default(),
            panics: Count::default(),
            refused: Default::default(),
            requests: (0..cells).map(|_| Count::default()).collect(),
            durations: (0..routes).map(|_| Histogram::default()).collect(),
        }
    }

    pub(crate) fn refuse(&self, reason: Refusal) {
        self.refused[reason as usize].add(1);
    }

    /// Counts a finished request; `None` when its client went away before the reply began.
    pub(crate) fn finish(
        &self,
        route: usize,
        method: &Method,
        status: Option<StatusCode>,
        duration: Duration,
    ) {
        let code = status.map_or(CLIENT_GONE, |status| status.as_u16());
        let code = CODES.binary_search(&code).unwrap_or(CODES.len());
        let row = route * METHODS.len() + method_index(method);
        self.requests[row * (CODES.len() + 1) + code].add(1);
        self.durations[route].observe(duration);
    }

    pub(super) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.iter().map(|(reason, name)| (*name, self.refused[*reason as usize].get()))
    }

    /// Requests that were counted at least once: (route, method, code, number).
    pub(super) fn requests(&self) -> impl Iterator<Item = (usize, &'static str, String, u64)> {
        let columns = CODES.len() + 1;
        let cells = self.requests.iter().map(Count::get).enumerate();
        cells.filter(|(_, n)| *n > 0).map(move |(cell, n)| {
            let (row, column) = (cell / columns, cell % columns);
            let code = CODES.get(column).map_or("other".to_owned(), u16::to_string);
            (row / METHODS.len(), METHODS[row % METHODS.len()], code, n)
        })
    }

    /// Durations of each route that had a request.
    pub(super) fn durations(&self) -> impl Iterator<Item = (usize, &Histogram)> {
        self.durations.iter().enumerate().filter(|(_, histogram)| histogram.read().1 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_searchable() {
        assert!(CODES.is_sorted());
        assert!(CODES.contains(&CLIENT_GONE));
        assert!(BOUNDS.is_sorted());
        for (index, (reason, _)) in Refusal::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }

    #[test]
    fn a_request_lands_in_its_cell_and_bucket() {
        let metrics = LaneMetrics::new(2);
        let brief = Duration::from_micros(100);
        metrics.finish(1, &Method::PUT, Some(StatusCode::CREATED), brief);
        metrics.finish(0, &Method::GET, None, Duration::from_secs(60));
        metrics.finish(
            0,
            &Method::from_bytes(b"BREW").expect("a token"),
            Some(StatusCode::IM_A_TEAPOT),
            brief,
        );
        let seen: Vec<_> = metrics.requests().collect();
        assert_eq!(
            seen,
            [
                (0, "GET", "499".to_owned(), 1),
                (0, "other", "other".to_owned(), 1),
                (1, "PUT", "201".to_owned(), 1),
            ]
        );
        let (sum, count, buckets) = metrics.durations[1].read();
        assert!((sum - 0.0001).abs() < 1e-9 && count == 1);
        assert_eq!(buckets[0], (0.0001, 1), "a bound belongs to its own bucket");
        let (_, _, buckets) = metrics.durations[0].read();
        assert_eq!(buckets[BOUNDS.len()], (f64::INFINITY, 1), "beyond the last bound");
    }
}
