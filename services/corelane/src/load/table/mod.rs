//! The cost of each kind of request, estimated from served requests.

use std::time::Duration;

use crate::metrics::kind::{KindIndex, METHODS};
use crate::metrics::{Count, Rows};

/// Weight of a new observation: 1/8 in the mean, 1/4 in the deviation (as for round-trip times in
/// RFC 6298 section 2).
const MEAN_SHARE: i64 = 8;
const DEVIATION_SHARE: i64 = 4;

/// An exponentially weighted mean and mean deviation of a duration in nanoseconds. One thread
/// writes it, and all threads may read it.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    mean: Count,
    deviation: Count,
    observations: Count,
}

impl Estimate {
    fn observe(&self, nanos: u64) {
        // Half the range of a u64 is 292 years.
        let (new, old) = (nanos as i64, self.mean.get() as i64);
        if self.observations.get() == 0 {
            // RFC 6298 section 2.2: the first observation is the mean, and half of it the
            // deviation.
            self.mean.set(nanos);
            self.deviation.set(nanos / 2);
        } else {
            let deviation = self.deviation.get() as i64;
            let change = ((new - old).abs() - deviation) / DEVIATION_SHARE;
            self.deviation.set((deviation + change) as u64);
            self.mean.set((old + (new - old) / MEAN_SHARE) as u64);
        }
        self.observations.add(1);
    }

    /// The mean; `None` before the first observation.
    fn mean(&self) -> Option<u64> {
        (self.observations.get() > 0).then(|| self.mean.get())
    }
}

/// Sums of a duration and of its square over all observations. The difference of two reads gives
/// the exact mean and variance between them. One thread writes it, and all threads may read it.
#[derive(Debug, Default)]
struct Sums {
    /// A u64 of nanoseconds holds 584 years of request time.
    nanos: Count,
    /// Nanoseconds squared, as the bits of an f64. A u64 would overflow after 18 observations of
    /// one second. Each addition is rounded to 16 digits.
    squares: Count,
}

impl Sums {
    fn observe(&self, nanos: u64) {
        self.nanos.add(nanos);
        let nanos = nanos as f64;
        self.squares.set((f64::from_bits(self.squares.get()) + nanos * nanos).to_bits());
    }

    fn read(&self) -> Moments {
        let squares = f64::from_bits(self.squares.get());
        Moments { seconds: self.nanos.get() as f64 / 1e9, squared_seconds: squares / 1e18 }
    }
}

/// Sums of a duration in seconds, and of its square in seconds squared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) seconds: f64,
    pub(crate) squared_seconds: f64,
}

/// Durations of a kind of request: smoothed, and summed over all requests.
#[derive(Debug, Default)]
struct KindTimes {
    estimate: Estimate,
    sums: Sums,
}

/// One kind of request: a method and a route.
#[derive(Debug, Default)]
struct KindCosts {
    /// Stored next to the mean, because both are read for each request.
    tail: Tail,
    /// Time for which the handler was being polled.
    lane: KindTimes,
    /// Time from the start of the handler to the head of the response, including waits.
    service: KindTimes,
}

/// The load table of one lane: the expected cost of each kind of request.
#[derive(Debug)]
pub(crate) struct LoadTable {
    /// Costs, ordered by route, then method.
    kinds: Rows<KindCosts>,
    /// Lane time across all kinds.
    overall: Estimate,
    /// Nanoseconds above which a poll is long; `None` without slow lanes.
    bound: Option<u64>,
}

/// The load table's forecast for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// Lane time in nanoseconds.
    pub(crate) nanos: u64,
    pub(crate) kind: Expectation,
}

/// A row of the load table, merged across lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) route: usize,
    pub(crate) method: &'static str,
    pub(crate) observations: u64,
    /// Means and mean deviations.
    pub(crate) lane: (Duration, Duration),
    pub(crate) service: (Duration, Duration),
    pub(crate) lane_sums: Moments,
    pub(crate) service_sums: Moments,
    /// Number of lanes that serve this kind on their slow lane.
    pub(crate) slow_on: usize,
}

impl LoadTable {
    /// Creates a table. `bound`: the time above which a poll is long; `None` without slow lanes.
    pub(crate) fn new(routes: (usize, usize), bound: Option<Duration>) -> Self {
        LoadTable {
            kinds: Rows::new(routes, METHODS.len()),
            overall: Estimate::default(),
            bound: bound.map(|bound| bound.as_nanos() as u64),
        }
    }

    /// Records the service's statement whether requests of a route are slow. Only the lane's thread
    /// may call this.
    pub(crate) fn fix(&self, route: usize, slow: bool) {
        for method in 0..METHODS.len() {
            let kind = KindIndex::new(route, method);
            self.kinds.at(usize::from(kind.bits())).tail.fix(slow);
        }
    }

    /// Returns the forecast for a request of this kind.
    #[inline]
    pub(crate) fn foresee(&self, kind: KindIndex) -> Forecast {
        let row = self.kinds.get(usize::from(kind.bits()));
        match row.and_then(|row| Some((row.lane.estimate.mean()?, row))) {
            Some((nanos, row)) => Forecast { nanos, kind: row.tail.expectation() },
            None => self.unknown(row),
        }
    }

    #[cold]
    #[inline(never)]
    fn unknown(&self, row: Option<&KindCosts>) -> Forecast {
        let kind = match row {
            Some(row) if row.tail.is_fixed() => row.tail.expectation(),
            _ if self.bound.is_none() => Expectation::Short,
            _ => Expectation::Unknown,
        };
        Forecast { nanos: self.expect_any(), kind }
    }

    /// Expected lane time of a request in nanoseconds. An unseen kind uses the mean over all kinds;
    /// before the first request this is 0.
    pub(crate) fn expect(&self, kind: KindIndex) -> u64 {
        let known =
            self.kinds.get(usize::from(kind.bits())).and_then(|kind| kind.lane.estimate.mean());
        known.unwrap_or_else(|| self.expect_any())
    }

    /// Expected lane time of a request of unknown kind, in nanoseconds.
    pub(crate) fn expect_any(&self) -> u64 {
        self.overall.mean().unwrap_or(0)
    }

    /// Adds an observation. Only the lane's thread may call this.
    pub(crate) fn observe(
        &self,
        kind: KindIndex,
        lane_nanos: u64,
        service_nanos: u64,
        longest: LongestPoll,
    ) {
        let kind = self.kinds.at(usize::from(kind.bits()));
        if let Some(bound) = self.bound {
            kind.tail.observe(kind.lane.estimate.observations.get(), longest, bound);
        }
        for (times, nanos) in [(&kind.lane, lane_nanos), (&kind.service, service_nanos)] {
            times.estimate.observe(nanos);
            times.sums.observe(nanos);
        }
        self.overall.observe(lane_nanos);
    }

    /// Merges the tables of several lanes. Means are weighted by their number of observations.
    pub(crate) fn merge<'a>(tables: impl Iterator<Item = &'a LoadTable> + Clone) -> Vec<Row> {
        let kinds = tables.clone().map(|table| table.kinds.iter().count()).max().unwrap_or(0);
        let rows = (0..kinds).filter_map(|index| {
            let kinds = tables.clone().filter_map(|table| table.kinds.get(index));
            let observations =
                kinds.clone().map(|kind| kind.lane.estimate.observations.get()).sum();
            let kind = KindIndex::from_bits(index as u16);
            (observations > 0).then(|| Row {
                route: kind.route(),
                method: kind.method_name(),
                observations,
                lane: merge(kinds.clone().map(|kind| &kind.lane.estimate)),
                service: merge(kinds.clone().map(|kind| &kind.service.estimate)),
                lane_sums: add_up(kinds.clone().map(|kind| &kind.lane.sums)),
                slow_on: kinds.clone().filter(|kind| kind.tail.is_slow()).count(),
                service_sums: add_up(kinds.map(|kind| &kind.service.sums)),
            })
        });
        rows.collect()
    }
}

fn merge<'a>(estimates: impl Iterator<Item = &'a Estimate> + Clone) -> (Duration, Duration) {
    let weighted = |value: fn(&Estimate) -> &Count| {
        let parts = estimates.clone().map(|estimate| {
            let weight = estimate.observations.get() as f64;
            (weight * value(estimate).get() as f64, weight)
        });
        let (sum, weights) = parts.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        Duration::from_nanos((sum / f64::max(weights, 1.0)) as u64)
    };
    (weighted(|estimate| &estimate.mean), weighted(|estimate| &estimate.deviation))
}

fn add_up<'a>(sums: impl Iterator<Item = &'a Sums>) -> Moments {
    sums.map(Sums::read).fold(Moments::default(), |all, one| Moments {
        seconds: all.seconds + one.seconds,
        squared_seconds: all.squared_seconds + one.squared_seconds,
    })
}

/// Weight of a new observation once there are this many; until then, the share is the plain mean.
const WINDOW: u64 = 128;

/// Share of requests with a long poll at which a kind becomes slow, and below which it is no longer
/// slow. There are two bounds, so that a kind near one of them does not change with each request.
const SLOW_FROM: u64 = ONE / 100;
const SLOW_UNTIL: u64 = ONE / 400;

/// Number of requests that are measured with the thread's CPU clock after a long poll.
const WATCHED: u64 = 256;

/// A share of 1.
const ONE: u64 = (1 << SHARE_BITS) - 1;
const SHARE_BITS: u32 = 32;
/// A share so small that it counts as zero.
const NONE: u64 = ONE >> 20;
/// Share for the first long poll of a kind that was not measured with the thread's CPU clock,
/// because the thread may have been interrupted. The kind counts as slow for a few requests, and
/// these decide.
const DOUBTFUL: u64 = ONE / 50;

const WATCH_BITS: u32 = 16;
const SLOW: u64 = 1 << (SHARE_BITS + WATCH_BITS);
const FIXED: u64 = SLOW << 1;

/// The expected polls of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Only short polls.
    Short,
    /// Only short polls, but a recent request of its kind had a long one.
    Doubtful,
    /// A long poll.
    Long,
    /// Unknown, because no request of its kind was observed.
    Unknown,
}

/// The longest poll of a request's handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestPoll {
    pub(crate) nanos: u64,
    /// Whether the CPU clock of the thread measured it. Otherwise it was the wall clock, which also
    /// runs while the thread is interrupted.
    pub(crate) is_cpu: bool,
}

/// The share of requests of one kind with a long poll, and the resulting state, in one word that a
/// lane reads for every request. 0 for a kind without long polls. Only one thread writes it.
#[derive(Debug, Default)]
struct Tail(Count);

impl Tail {
    /// The expectation for the next request of this kind. Most kinds never had a long poll.
    #[inline]
    fn expectation(&self) -> Expectation {
        if self.0.get() >> SHARE_BITS == 0 { Expectation::Short } else { self.of_long() }
    }

    #[cold]
    fn of_long(&self) -> Expectation {
        match (self.is_slow(), self.is_fixed()) {
            (true, _) => Expectation::Long,
            (false, true) => Expectation::Short,
            (false, false) => Expectation::Doubtful,
        }
    }

    /// Whether requests of this kind are served on the slow lane.
    fn is_slow(&self) -> bool {
        self.0.get() & SLOW != 0
    }

    /// Whether the service has set the cost of the kind.
    fn is_fixed(&self) -> bool {
        self.0.get() & FIXED != 0
    }

    fn fix(&self, slow: bool) {
        self.0.set(FIXED | if slow { SLOW } else { 0 });
    }

    /// Adds an observation after `before` others.
    #[inline]
    fn observe(&self, before: u64, longest: LongestPoll, bound: u64) {
        let word = self.0.get();
        if word != 0 || longest.nanos > bound {
            self.learn(word, before, longest, longest.nanos > bound);
        }
    }

    #[inline(never)]
    fn learn(&self, word: u64, before: u64, longest: LongestPoll, is_long: bool) {
        if word & FIXED != 0 {
            return;
        }
        let (mut share, mut watch) = (word & ONE, word >> SHARE_BITS & ((1 << WATCH_BITS) - 1));
        let is_doubtful = is_long && !longest.is_cpu;
        if is_long {
            watch = WATCHED;
        } else {
            watch = watch.saturating_sub(1);
        }
        if !is_doubtful {
            let weight = (before + 1).min(WINDOW);
            share = if is_long { share + (ONE - share) / weight } else { share - share / weight };
        } else if before == 0 {
            share = DOUBTFUL;
        }
        if share < NONE {
            share = 0;
        }
        let was_slow = word & SLOW != 0;
        let is_slow = share >= SLOW_FROM || (was_slow && share >= SLOW_UNTIL);
        if was_slow && !is_slow {
            watch = WATCHED;
        }
        self.0.set(share | watch << SHARE_BITS | if is_slow { SLOW } else { 0 });
    }
}

#[cfg(test)]
mod tests;
