//! One lane's counters: written by its thread alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::{Method, StatusCode};

use crate::load_table::KindIndex;

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

    /// Only the thread of the owning lane may call this.
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
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

/// [`BOUNDS`] in nanoseconds.
const NANOS: [u64; BOUNDS.len()] = {
    let mut nanos = [0; BOUNDS.len()];
    let mut index = 0;
    while index < BOUNDS.len() {
        nanos[index] = (BOUNDS[index] * 1e9 + 0.5) as u64;
        index += 1;
    }
    nanos
};

/// A duration histogram with the buckets of [`BOUNDS`].
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Count; BOUNDS.len() + 1],
    nanos: Count,
}

impl Histogram {
    fn observe(&self, nanos: u64) {
        // Most are brief.
        let brief = nanos <= NANOS[0];
        let index = if brief { 0 } else { NANOS.partition_point(|&bound| bound < nanos) };
        self.buckets[index].add(1);
        self.nanos.add(nanos);
    }

    fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.get() == 0)
    }

    /// Sum in seconds, number of observations, and the count of each bucket (not cumulated).
    pub(super) fn read(&self) -> (f64, u64, [(f64, u64); BOUNDS.len() + 1]) {
        let buckets = std::array::from_fn(|index| {
            let bound = BOUNDS.get(index).copied().unwrap_or(f64::INFINITY);
            (bound, self.buckets[index].get())
        });
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
    /// What came was not HTTP: answered 400 (HTTP/2: GOAWAY).
    BadRequest,
    /// The header had more than [`Limits::header_bytes`](crate::Limits::header_bytes) or more
    /// than [`Limits::headers`](crate::Limits::headers) fields: answered 431.
    HeaderTooLarge,
    /// [`Timeouts::write`](crate::Timeouts::write) ran out for the connection, or for one stream
    /// of it.
    WriteTimeout,
    /// An HTTP/2 client opened and reset streams, or sent CONTINUATION frames, without measure.
    Flood,
    /// It reached its [`Timeouts::connection_age`](crate::Timeouts::connection_age); no failure.
    Age,
    /// It carried its [`Limits::connection_requests`](crate::Limits::connection_requests); no
    /// failure.
    Requests,
    /// Where a message of HTTP/1.1 ends could be read in two ways.
    AmbiguousFraming,
    /// A TLS handshake failed: the client left, speaks no version or cipher of ours, or refused
    /// our certificate.
    Handshake,
    /// [`Timeouts::header`](crate::Timeouts::header) ran out before the TLS handshake was done.
    HandshakeTimeout,
    /// A request without TLS came to the port that speaks TLS; it was answered 400.
    PlainHttp,
}

impl Refusal {
    pub(super) const ALL: [(Refusal, &'static str); 14] = [
        (Refusal::Limit, "limit"),
        (Refusal::HeaderTimeout, "header_timeout"),
        (Refusal::IdleTimeout, "idle_timeout"),
        (Refusal::AcceptError, "accept_error"),
        (Refusal::BadRequest, "bad_request"),
        (Refusal::HeaderTooLarge, "header_too_large"),
        (Refusal::WriteTimeout, "write_timeout"),
        (Refusal::Flood, "flood"),
        (Refusal::Age, "age"),
        (Refusal::Requests, "requests"),
        (Refusal::AmbiguousFraming, "ambiguous_framing"),
        (Refusal::Handshake, "handshake"),
        (Refusal::HandshakeTimeout, "handshake_timeout"),
        (Refusal::PlainHttp, "plain_http"),
    ];
}

/// How a TLS handshake ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Handshake {
    Success,
    Failure,
    Timeout,
}

impl Handshake {
    pub(super) const ALL: [(Handshake, &'static str); 3] = [
        (Handshake::Success, "success"),
        (Handshake::Failure, "failure"),
        (Handshake::Timeout, "timeout"),
    ];
}

/// Why a request was answered without its service, or in its stead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestRefusal {
    /// The lane's queue was full ([`Limits::queue`](crate::Limits::queue)), or the request could
    /// not have started before its deadline.
    QueueFull,
    /// The threads for [`blocking`](crate::blocking) calls were busy and their queue full: counted
    /// for each call that was refused, whatever its handler made of it.
    PoolFull,
    /// [`Timeouts::request`](crate::Timeouts::request) ran out.
    Timeout,
    /// The body was larger than [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyTooLarge,
    /// The target was longer than [`Limits::uri_bytes`](crate::Limits::uri_bytes).
    UriTooLong,
    /// It was not what HTTP asks for.
    Invalid,
    /// The next bytes of its body did not come in [`Timeouts::body`](crate::Timeouts::body).
    BodyTimeout,
    /// An HTTP/2 request had more fields than [`Limits::headers`](crate::Limits::headers).
    TooManyHeaders,
    /// The header list of an HTTP/2 request was larger than
    /// [`Limits::header_bytes`](crate::Limits::header_bytes).
    HeaderTooLarge,
}

impl RequestRefusal {
    pub(super) const ALL: [(RequestRefusal, &'static str); 9] = [
        (RequestRefusal::QueueFull, "queue_full"),
        (RequestRefusal::PoolFull, "pool_full"),
        (RequestRefusal::Timeout, "request_timeout"),
        (RequestRefusal::BodyTooLarge, "body_too_large"),
        (RequestRefusal::UriTooLong, "uri_too_long"),
        (RequestRefusal::Invalid, "invalid"),
        (RequestRefusal::BodyTimeout, "body_timeout"),
        (RequestRefusal::TooManyHeaders, "too_many_headers"),
        (RequestRefusal::HeaderTooLarge, "header_too_large"),
    ];
}

/// The parts of a request's time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// From the accept of a connection to the header of its first request.
    Accept,
    /// From the header to the start of the handler.
    Queue,
    /// From the start of the handler to the head of the reply.
    Handler,
    /// From the head of the reply until the socket has taken its last byte; 0 where it took all
    /// of an HTTP/1.1 reply at once.
    Write,
}

impl Phase {
    pub(super) const ALL: [(Phase, &'static str); 4] = [
        (Phase::Accept, "accept"),
        (Phase::Queue, "queue"),
        (Phase::Handler, "handler"),
        (Phase::Write, "write"),
    ];
}

/// Methods that have a label of their own; any other counts as `other`.
pub(crate) const METHODS: [&str; 10] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "other"];

/// Codes that have a label of their own, ascending; any other counts as `other`.
///
/// 499 is what nginx made customary for a client that went away before its reply.
pub(super) const CODES: [u16; 38] = [
    101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408,
    409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 429, 431, 499, 500, 501, 502, 503, 504,
];

/// The index of each code in [`CODES`], or the one after the last.
const INDICES: [u8; 1000] = {
    let mut indices = [CODES.len() as u8; 1000];
    let mut index = 0;
    while index < CODES.len() {
        indices[CODES[index] as usize] = index as u8;
        index += 1;
    }
    indices
};

/// What a reply counts as when its client went away before it began.
pub(crate) const CLIENT_GONE: u16 = 499;

pub(crate) fn method_index(method: &Method) -> usize {
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
    /// Requests that ended, whatever came of them.
    pub(crate) finished: Count,
    /// Of these, answered with 5xx.
    pub(crate) failed: Count,
    /// Time on the lane, in nanoseconds, that the requests which are queued or running are
    /// expected to take by the load table.
    pub(crate) expected: Count,
    /// Requests that wait for a slot or their turn.
    pub(crate) queued: Count,
    /// Counts on while the event loop turns.
    pub(crate) beats: Count,
    /// Connections that this lane took from the inbox of another.
    pub(crate) stolen: Count,
    refused: [Count; Refusal::ALL.len()],
    refused_requests: [Count; RequestRefusal::ALL.len()],
    handshakes: [Count; Handshake::ALL.len()],
    /// By route, then method, then code.
    requests: Vec<Count>,
    durations: Vec<Histogram>,
    phases: [Vec<Histogram>; Phase::ALL.len()],
}

impl LaneMetrics {
    pub(crate) fn new(routes: usize) -> Self {
        let histograms = || (0..routes).map(|_| Histogram::default()).collect();
        let cells = routes * METHODS.len() * (CODES.len() + 1);
        LaneMetrics {
            accepted: Count::default(),
            open: Count::default(),
            in_flight: Count::default(),
            panics: Count::default(),
            finished: Count::default(),
            failed: Count::default(),
            expected: Count::default(),
            queued: Count::default(),
            beats: Count::default(),
            stolen: Count::default(),
            refused: Default::default(),
            refused_requests: Default::default(),
            handshakes: Default::default(),
            requests: (0..cells).map(|_| Count::default()).collect(),
            durations: histograms(),
            phases: std::array::from_fn(|_| histograms()),
        }
    }

    pub(crate) fn refuse(&self, reason: Refusal) {
        self.refused[reason as usize].add(1);
    }

    pub(crate) fn refuse_request(&self, reason: RequestRefusal) {
        self.refuse_requests(reason, 1);
    }

    pub(crate) fn refuse_requests(&self, reason: RequestRefusal, n: u64) {
        self.refused_requests[reason as usize].add(n);
    }

    pub(crate) fn shake(&self, result: Handshake) {
        self.handshakes[result as usize].add(1);
    }

    /// Counts a finished request; `None` when its client went away before the reply began.
    pub(crate) fn finish(&self, kind: KindIndex, status: Option<StatusCode>) {
        self.finished.add(1);
        if status.is_some_and(|status| status.is_server_error()) {
            self.failed.add(1);
        }
        let code = status.map_or(CLIENT_GONE, |status| status.as_u16());
        let code = usize::from(INDICES[usize::from(code)]);
        let row = usize::from(kind.bits());
        self.requests[row * (CODES.len() + 1) + code].add(1);
    }

    /// Counts the nanoseconds from a request's header to the head of its reply.
    pub(crate) fn observe_duration(&self, kind: KindIndex, nanos: u64) {
        self.durations[kind.route()].observe(nanos);
    }

    pub(crate) fn observe_phase(&self, kind: KindIndex, phase: Phase, nanos: u64) {
        self.phases[phase as usize][kind.route()].observe(nanos);
    }

    pub(super) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.iter().map(|(reason, name)| (*name, self.refused[*reason as usize].get()))
    }

    pub(super) fn refused_requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = RequestRefusal::ALL.iter();
        all.map(|(reason, name)| (*name, self.refused_requests[*reason as usize].get()))
    }

    pub(super) fn handshakes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let results = Handshake::ALL.iter();
        results.map(|(result, name)| (*name, self.handshakes[*result as usize].get()))
    }

    /// Requests that were counted at least once: kind, index of the code, number. The index
    /// after the last of [`CODES`] is that of any other.
    pub(super) fn requests(&self) -> impl Iterator<Item = (KindIndex, usize, u64)> {
        let columns = CODES.len() + 1;
        let cells = self.requests.iter().map(Count::get).enumerate();
        cells.filter(|(_, n)| *n > 0).map(move |(cell, n)| {
            (KindIndex::from_bits((cell / columns) as u16), cell % columns, n)
        })
    }

    /// Finished requests of every kind.
    pub(crate) fn finished(&self) -> u64 {
        self.requests.iter().map(Count::get).sum()
    }

    /// Requests that were answered without their service for `reason`.
    pub(crate) fn refused_for(&self, reason: RequestRefusal) -> u64 {
        self.refused_requests[reason as usize].get()
    }

    /// Durations of each route that had a request.
    pub(super) fn durations(&self) -> impl Iterator<Item = (usize, &Histogram)> {
        self.durations.iter().enumerate().filter(|(_, histogram)| !histogram.is_empty())
    }

    /// Phases of each route that had one: (phase, route, histogram).
    pub(super) fn phases(&self) -> impl Iterator<Item = (&'static str, usize, &Histogram)> {
        Phase::ALL.iter().flat_map(|(phase, name)| {
            let histograms = self.phases[*phase as usize].iter().enumerate();
            let seen = histograms.filter(|(_, histogram)| !histogram.is_empty());
            seen.map(|(route, histogram)| (*name, route, histogram))
        })
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
        for (index, (reason, _)) in RequestRefusal::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
        for (index, (phase, _)) in Phase::ALL.iter().enumerate() {
            assert_eq!(*phase as usize, index);
        }
    }

    #[test]
    fn a_request_lands_in_its_cell_and_bucket() {
        let metrics = LaneMetrics::new(2);
        let kind = |route, method: &[u8]| {
            let method = Method::from_bytes(method).expect("a token");
            KindIndex::new(route, method_index(&method))
        };
        metrics.finish(kind(1, b"PUT"), Some(StatusCode::CREATED));
        metrics.finish(kind(0, b"GET"), None);
        metrics.finish(kind(0, b"BREW"), Some(StatusCode::IM_A_TEAPOT));
        metrics.observe_duration(kind(1, b"PUT"), 100_000);
        metrics.observe_duration(kind(0, b"GET"), 60_000_000_000);
        metrics.observe_phase(kind(1, b"GET"), Phase::Queue, 0);
        let seen: Vec<_> = metrics.requests().collect();
        let code = |code: u16| CODES.binary_search(&code).expect("a code with a label");
        assert_eq!(
            seen,
            [
                (kind(0, b"GET"), code(499), 1),
                (kind(0, b"BREW"), CODES.len(), 1),
                (kind(1, b"PUT"), code(201), 1),
            ]
        );
        let (sum, count, buckets) = metrics.durations[1].read();
        assert!((sum - 0.0001).abs() < 1e-9 && count == 1);
        assert_eq!(buckets[0], (0.0001, 1), "a bound belongs to its own bucket");
        let (_, _, buckets) = metrics.durations[0].read();
        assert_eq!(buckets[BOUNDS.len()], (f64::INFINITY, 1), "beyond the last bound");
        let phases: Vec<_> = metrics.phases().map(|(phase, route, _)| (phase, route)).collect();
        assert_eq!(phases, [("queue", 1)]);
    }
}
