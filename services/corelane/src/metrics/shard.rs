//! A lane's counters. Only the lane's thread writes them, and all threads may read them.

use std::sync::OnceLock;

use http::StatusCode;

use super::reason::{Handshake, Moved, PlanOutcome, Refusal, RequestPhase, RequestRefusal, Woken};
use crate::metrics::count::{Count, Rows};
use crate::metrics::exemplars::Exemplars;
use crate::metrics::kind::{KindIndex, METHODS};

/// Upper bounds of the duration buckets in seconds, followed by `+Inf`.
pub(crate) const BOUNDS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

const NANOS: [u64; BOUNDS.len()] = {
    let mut nanos = [0; BOUNDS.len()];
    let mut index = 0;
    while index < BOUNDS.len() {
        nanos[index] = (BOUNDS[index] * 1e9 + 0.5) as u64;
        index += 1;
    }
    nanos
};

#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [Count; BOUNDS.len() + 1],
    nanos: Count,
}

impl Histogram {
    fn observe(&self, nanos: u64) {
        self.buckets[bucket(nanos)].add(1);
        self.nanos.add(nanos);
    }

    fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.get() == 0)
    }

    /// Sum in seconds, observations, and the count of each bucket (not cumulative).
    pub(crate) fn read(&self) -> (f64, u64, [(f64, u64); BOUNDS.len() + 1]) {
        let buckets = std::array::from_fn(|index| {
            let bound = BOUNDS.get(index).copied().unwrap_or(f64::INFINITY);
            (bound, self.buckets[index].get())
        });
        let count = buckets.iter().map(|(_, n)| n).sum();
        (self.nanos.get() as f64 / 1e9, count, buckets)
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    // Small buckets dominate, because most requests are cheap.
    if nanos <= NANOS[0] { 0 } else { NANOS.partition_point(|&bound| bound < nanos) }
}

pub(crate) type DurationExemplars = Exemplars<{ BOUNDS.len() + 1 }>;

/// Status codes that have their own label, in ascending order. All other codes count as `other`.
///
/// 499 is nginx's code for a client that disconnected before the response.
pub(crate) const CODES: [u16; 38] = [
    101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 406, 408,
    409, 410, 411, 412, 413, 414, 415, 416, 417, 421, 422, 429, 431, 499, 500, 501, 502, 503, 504,
];

/// Index of each code in [`CODES`], or the index after the last entry for other codes.
const INDICES: [u8; 1000] = {
    let mut indices = [CODES.len() as u8; 1000];
    let mut index = 0;
    while index < CODES.len() {
        indices[CODES[index] as usize] = index as u8;
        index += 1;
    }
    indices
};

/// Recorded if the client disconnected before the response began.
pub(crate) const CLIENT_GONE: u16 = 499;

/// Aligned to two cache lines, which the CPU prefetches as a pair.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LaneMetrics {
    pub(crate) accepted: Count,
    pub(crate) open: Count,
    pub(crate) in_flight: Count,
    /// Open connections and HTTP/2 streams that were upgraded.
    pub(crate) upgraded: Count,
    pub(crate) panics: Count,
    pub(crate) finished: Count,
    /// Requests answered with 5xx.
    pub(crate) failed: Count,
    /// Expected lane nanoseconds of the queued and running requests, from the load table.
    pub(crate) expected: Count,
    pub(crate) queued: Count,
    /// Incremented while the event loop turns.
    pub(crate) beats: Count,
    pub(crate) stolen: Count,
    /// Connections of this lane that other lanes borrowed while it was blocked. Written by the
    /// admin thread.
    pub(crate) lent: Count,
    pub(crate) parkings: Count,
    /// Connections that arrived from another lane, or came back because that lane rejected them.
    pub(crate) arrived: Count,
    /// Number of connections that have had a request since the last sweep.
    pub(crate) active: Count,
    /// Response bytes that are waiting for clients.
    pub(crate) unsent: Count,
    /// Busy share of the time between the last two sweeps, in millionths.
    pub(crate) busy: Count,
    /// Blocking calls by the slow lane's handlers that found the pool full. Written by the slow
    /// lane.
    pub(crate) slow_pool_full: Count,
    woken: [Count; Woken::ALL.len()],
    moved: [Count; Moved::ALL.len()],
    refused: [Count; Refusal::ALL.len()],
    refused_requests: [Count; RequestRefusal::ALL.len()],
    handshakes: [Count; Handshake::ALL.len()],
    requests: Rows<Count>,
    durations: Rows<Histogram>,
    /// A route's exemplars are allocated at its first traced request.
    exemplars: Rows<OnceLock<Box<DurationExemplars>>>,
    phases: [Rows<Histogram>; RequestPhase::ALL.len()],
}

impl LaneMetrics {
    pub(crate) fn new(routes: (usize, usize)) -> Self {
        LaneMetrics {
            accepted: Count::default(),
            open: Count::default(),
            in_flight: Count::default(),
            upgraded: Count::default(),
            panics: Count::default(),
            finished: Count::default(),
            failed: Count::default(),
            expected: Count::default(),
            queued: Count::default(),
            beats: Count::default(),
            stolen: Count::default(),
            lent: Count::default(),
            parkings: Count::default(),
            arrived: Count::default(),
            active: Count::default(),
            unsent: Count::default(),
            busy: Count::default(),
            slow_pool_full: Count::default(),
            woken: Default::default(),
            moved: Default::default(),
            refused: Default::default(),
            refused_requests: Default::default(),
            handshakes: Default::default(),
            requests: Rows::new(routes, METHODS.len() * (CODES.len() + 1)),
            durations: Rows::new(routes, 1),
            exemplars: Rows::new(routes, 1),
            phases: std::array::from_fn(|_| Rows::new(routes, 1)),
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

    pub(crate) fn wake(&self, reason: Woken) {
        self.woken[reason as usize].add(1);
    }

    /// Counts a connection that leaves for another lane. The lane at which it arrives counts it in
    /// [`LaneMetrics::arrived`]: the target, or this lane if the target rejects it.
    pub(crate) fn depart(&self, reason: Moved) {
        self.moved[reason as usize].add(1);
        // A parked connection has not had a request for a long time, and the next sweep counts all
        // connections again.
        if reason != Moved::Wake {
            self.active.set(self.active.get().saturating_sub(1));
        }
    }

    pub(crate) fn arrive(&self) {
        self.arrived.add(1);
        self.active.add(1);
    }

    pub(crate) fn parked(&self) -> u64 {
        // This order ensures that a connection that parks and wakes in between cannot make the
        // result negative.
        let left: u64 = self.woken.iter().map(Count::get).sum();
        self.parkings.get().saturating_sub(left)
    }

    pub(crate) fn departed(&self) -> u64 {
        self.moved.iter().map(Count::get).sum()
    }

    /// `status` is `None` if the client disconnected before the response began.
    pub(crate) fn finish(&self, kind: KindIndex, status: Option<StatusCode>) {
        self.finished.add(1);
        if status.is_some_and(|status| status.is_server_error()) {
            self.failed.add(1);
        }
        let code = status.map_or(CLIENT_GONE, |status| status.as_u16());
        let code = usize::from(INDICES[usize::from(code)]);
        let row = usize::from(kind.bits());
        self.requests.at(row * (CODES.len() + 1) + code).add(1);
    }

    pub(crate) fn observe_duration(&self, kind: KindIndex, nanos: u64) {
        self.durations.at(kind.route()).observe(nanos);
    }

    /// Keeps the trace of an observed request.
    pub(crate) fn exemplify(&self, kind: KindIndex, nanos: u64, trace: [u8; 16]) {
        let exemplars = self.exemplars.at(kind.route()).get_or_init(Box::default);
        exemplars.put(bucket(nanos), trace, nanos);
    }

    /// A route's exemplars, if one of its requests was traced.
    pub(crate) fn exemplars(&self, route: usize) -> Option<&DurationExemplars> {
        self.exemplars.get(route)?.get().map(Box::as_ref)
    }

    #[inline]
    pub(crate) fn observe_phase(&self, kind: KindIndex, phase: RequestPhase, nanos: u64) {
        self.phases[phase as usize].at(kind.route()).observe(nanos);
    }

    pub(crate) fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::ALL.iter().map(|(reason, name)| (*name, self.refused[*reason as usize].get()))
    }

    pub(crate) fn refused_requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RequestRefusal::ALL.iter().map(|(reason, name)| (*name, self.refused_for(*reason)))
    }

    pub(crate) fn woken(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Woken::ALL.iter().map(|(reason, name)| (*name, self.woken[*reason as usize].get()))
    }

    pub(crate) fn moved(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Moved::ALL.iter().map(|(reason, name)| (*name, self.moved[*reason as usize].get()))
    }

    pub(crate) fn handshakes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let results = Handshake::ALL.iter();
        results.map(|(result, name)| (*name, self.handshakes[*result as usize].get()))
    }

    /// Kind, code index and count of each kind of finished request. The index after the last entry
    /// of [`CODES`] is for all other codes.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (KindIndex, usize, u64)> {
        let columns = CODES.len() + 1;
        let cells = self.requests.iter().map(Count::get).enumerate();
        cells.filter(|(_, n)| *n > 0).map(move |(cell, n)| {
            (KindIndex::from_bits((cell / columns) as u16), cell % columns, n)
        })
    }

    pub(crate) fn finished(&self) -> u64 {
        self.requests.iter().map(Count::get).sum()
    }

    /// Requests that the server rejected for `reason` without calling the service.
    pub(crate) fn refused_for(&self, reason: RequestRefusal) -> u64 {
        let of_slow = match reason {
            RequestRefusal::PoolFull => self.slow_pool_full.get(),
            _ => 0,
        };
        self.refused_requests[reason as usize].get() + of_slow
    }

    pub(crate) fn durations(&self) -> impl Iterator<Item = (usize, &Histogram)> {
        self.durations.iter().enumerate().filter(|(_, histogram)| !histogram.is_empty())
    }

    pub(crate) fn phases(&self) -> impl Iterator<Item = (&'static str, usize, &Histogram)> {
        RequestPhase::ALL.iter().flat_map(|(phase, name)| {
            let histograms = self.phases[*phase as usize].iter().enumerate();
            let seen = histograms.filter(|(_, histogram)| !histogram.is_empty());
            seen.map(|(route, histogram)| (*name, route, histogram))
        })
    }
}

/// Finished plans by outcome. Only the thread that creates the plans writes these counters.
#[derive(Debug, Default)]
pub(crate) struct PlanCounts([Count; PlanOutcome::ALL.len()]);

impl PlanCounts {
    pub(crate) fn end(&self, outcome: PlanOutcome) {
        self.0[outcome as usize].add(1);
    }

    pub(crate) fn get(&self, outcome: PlanOutcome) -> u64 {
        self.0[outcome as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::metrics::kind::method_index;

    #[test]
    fn tables_are_searchable() {
        assert!(CODES.is_sorted());
        assert!(CODES.contains(&CLIENT_GONE));
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn what_is_parked_and_has_not_left_is_in_the_lot() {
        let metrics = LaneMetrics::new((1, 0));
        (0..5).for_each(|_| metrics.parkings.add(1));
        metrics.wake(Woken::Bytes);
        metrics.wake(Woken::Deadline);
        metrics.depart(Moved::Wake);
        metrics.depart(Moved::Busy);
        assert_eq!((metrics.parked(), metrics.departed()), (3, 2));
        let woken: Vec<_> = metrics.woken().collect();
        assert_eq!(woken, [("bytes", 1), ("deadline", 1), ("drain", 0)]);
        let moved: Vec<_> = metrics.moved().collect();
        assert_eq!(moved, [("wake", 1), ("busy", 1), ("saturated", 0)]);
    }

    #[test]
    fn a_request_lands_in_its_cell_and_bucket() {
        let metrics = LaneMetrics::new((1, 1));
        let kind = |route, method: &[u8]| {
            let method = Method::from_bytes(method).expect("a token");
            KindIndex::new(route, method_index(&method))
        };
        metrics.finish(kind(1, b"PUT"), Some(StatusCode::CREATED));
        metrics.finish(kind(0, b"GET"), None);
        metrics.finish(kind(0, b"BREW"), Some(StatusCode::IM_A_TEAPOT));
        metrics.observe_duration(kind(1, b"PUT"), 100_000);
        metrics.observe_duration(kind(0, b"GET"), 60_000_000_000);
        metrics.observe_phase(kind(1, b"GET"), RequestPhase::Queue, 0);
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
        let (sum, count, buckets) = metrics.durations.at(1).read();
        assert!((sum - 0.0001).abs() < 1e-9 && count == 1);
        assert_eq!(buckets[0], (0.0001, 1), "a bound belongs to its own bucket");
        let (_, _, buckets) = metrics.durations.at(0).read();
        assert_eq!(buckets[BOUNDS.len()], (f64::INFINITY, 1), "beyond the last bound");
        let phases: Vec<_> = metrics.phases().map(|(phase, route, _)| (phase, route)).collect();
        assert_eq!(phases, [("queue", 1)]);
    }
}
