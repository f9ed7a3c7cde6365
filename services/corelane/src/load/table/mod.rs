//! Cost of each kind of request, estimated from served requests.

use std::time::Duration;

use crate::metrics::kind::{KindIndex, METHODS};
use crate::metrics::{Count, Rows};

/// Weight of a new observation: 1/8 in the mean and 1/4 in the deviation, as for round-trip times
/// in RFC 6298 section 2.
const MEAN_SHARE: i64 = 8;
const DEVIATION_SHARE: i64 = 4;

/// Exponentially weighted mean and mean deviation of durations in nanoseconds. One thread writes
/// it, and all threads may read it.
#[derive(Debug, Default)]
pub(crate) struct Estimate {
    mean: Count,
    deviation: Count,
    observations: Count,
}

impl Estimate {
    fn observe(&self, nanos: u64) {
        let (new, old) = (nanos as i64, self.mean.get() as i64);
        if self.observations.get() == 0 {
            // RFC 6298 section 2.2: the mean starts at the first observation, and the deviation
            // starts at half of that value.
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

    /// `None` before the first observation.
    fn mean(&self) -> Option<u64> {
        (self.observations.get() > 0).then(|| self.mean.get())
    }
}

/// Sums of all observed durations and of their squares. The difference between two reads gives the
/// exact mean and variance in between. One thread writes the sums, and all threads may read them.
#[derive(Debug, Default)]
struct Sums {
    /// A u64 can hold 584 years of request time in nanoseconds.
    nanos: Count,
    /// Nanoseconds squared, as the bits of an f64 that rounds each addition to 16 digits. A u64
    /// would overflow after 18 observations of one second.
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

/// Sums of durations in seconds and of their squares in seconds squared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    pub(crate) seconds: f64,
    pub(crate) squared_seconds: f64,
}

#[derive(Debug, Default)]
struct KindTimes {
    estimate: Estimate,
    sums: Sums,
}

#[derive(Debug, Default)]
struct KindCosts {
    /// Stored next to the mean, because both are read for each request.
    tail: Tail,
    lane: KindTimes,
    /// From the start of the handler to the response head, including waits.
    service: KindTimes,
}

/// The load table of one lane: the expected cost of each kind of request.
#[derive(Debug)]
pub(crate) struct LoadTable {
    kinds: Rows<KindCosts>,
    overall: Estimate,
    /// Nanoseconds above which a poll is long, or `None` without slow lanes.
    bound: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    pub(crate) nanos: u64,
    pub(crate) kind: Expectation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) route: usize,
    pub(crate) method: &'static str,
    pub(crate) observations: u64,
    pub(crate) lane: (Duration, Duration),
    pub(crate) service: (Duration, Duration),
    pub(crate) lane_sums: Moments,
    pub(crate) service_sums: Moments,
    /// Number of lanes that serve this kind on their slow lane.
    pub(crate) slow_on: usize,
}

impl LoadTable {
    /// Polls longer than `bound` are long. `None` means that there are no slow lanes.
    pub(crate) fn new(routes: (usize, usize), bound: Option<Duration>) -> Self {
        LoadTable {
            kinds: Rows::new(routes, METHODS.len()),
            overall: Estimate::default(),
            bound: bound.map(|bound| bound.as_nanos() as u64),
        }
    }

    /// Records whether the service has declared that a route is slow. Call this only on the lane's
    /// thread.
    pub(crate) fn fix(&self, route: usize, slow: bool) {
        for method in 0..METHODS.len() {
            let kind = KindIndex::new(route, method);
            self.kinds.at(usize::from(kind.bits())).tail.fix(slow);
        }
    }

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

    /// Expected lane nanoseconds of a request. Unseen kinds use the mean of all kinds, which is 0
    /// before the first request.
    pub(crate) fn expect(&self, kind: KindIndex) -> u64 {
        let known =
            self.kinds.get(usize::from(kind.bits())).and_then(|kind| kind.lane.estimate.mean());
        known.unwrap_or_else(|| self.expect_any())
    }

    pub(crate) fn expect_any(&self) -> u64 {
        self.overall.mean().unwrap_or(0)
    }

    /// Adds an observation. Call this only on the lane's thread.
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

    /// Merges the tables of several lanes, weighting means by observations.
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

/// After this many observations, the weight of each new observation stays constant. Until then, the
/// share is the plain mean.
const WINDOW: u64 = 128;

/// Share of long polls at which a kind becomes slow, and the lower share at which it stops being
/// slow. With two different bounds, a kind that is close to one of them does not change state with
/// each request.
const SLOW_FROM: u64 = ONE / 100;
const SLOW_UNTIL: u64 = ONE / 400;

/// Requests measured with the thread's CPU clock after a long poll.
const WATCHED: u64 = 256;

/// A share of 1.
const ONE: u64 = (1 << SHARE_BITS) - 1;
const SHARE_BITS: u32 = 32;
const NONE: u64 = ONE >> 20;
/// Initial share after a long poll without CPU time: the thread may have been preempted. The kind
/// counts as slow for the next few requests, which decide whether it really is slow.
const DOUBTFUL: u64 = ONE / 50;

const WATCH_BITS: u32 = 16;
const SLOW: u64 = 1 << (SHARE_BITS + WATCH_BITS);
const FIXED: u64 = SLOW << 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    Short,
    /// The kind usually has only short polls, but one of its recent requests had a long poll.
    Doubtful,
    Long,
    /// Not observed yet.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestPoll {
    pub(crate) nanos: u64,
    /// Whether the thread's CPU clock measured the poll. If not, the wall clock measured it, and
    /// that clock keeps running while the thread is interrupted.
    pub(crate) is_cpu: bool,
}

/// Share of one kind's requests that had a long poll and the resulting state, packed into one word
/// that lanes read for every request. 0 for kinds without long polls. Only one thread writes it.
#[derive(Debug, Default)]
struct Tail(Count);

impl Tail {
    /// How the next request of this kind is expected to behave. Most kinds have never had a long
    /// poll.
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

    fn is_slow(&self) -> bool {
        self.0.get() & SLOW != 0
    }

    fn is_fixed(&self) -> bool {
        self.0.get() & FIXED != 0
    }

    fn fix(&self, slow: bool) {
        self.0.set(FIXED | if slow { SLOW } else { 0 });
    }

    /// Adds an observation that follows `before` earlier observations.
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
