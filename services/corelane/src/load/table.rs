//! The cost of each kind of request, estimated from served requests.

use std::time::Duration;

use crate::load::tail::{Expectation, LongestPoll, Tail};
use crate::metrics::kind::{KindIndex, METHODS};
use crate::metrics::{Count, Rows};

/// Weight of a new observation: 1/8 in the mean, 1/4 in the deviation (as for round-trip times in
/// RFC 6298 section 2).
const MEAN_SHARE: i64 = 8;
const DEVIATION_SHARE: i64 = 4;

/// An exponentially weighted mean and mean deviation of a duration in nanoseconds. Written by one
/// thread, readable by all.
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

    /// `None` before the first observation.
    fn mean(&self) -> Option<u64> {
        (self.observations.get() > 0).then(|| self.mean.get())
    }
}

/// Sums of a duration and of its square over all observations. The difference of two readings gives
/// the exact mean and variance between them. Written by one thread, readable by all.
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
    /// Next to the mean, because both are read for each request.
    tail: Tail,
    /// Time for which its handler was being polled.
    lane: KindTimes,
    /// From the start of its handler to the head of its reply, including waits.
    service: KindTimes,
}

/// The load table of one lane: the expected cost of each kind of request.
#[derive(Debug)]
pub(crate) struct LoadTable {
    /// Ordered by route, then method.
    kinds: Rows<KindCosts>,
    /// Lane time over all kinds.
    overall: Estimate,
    /// Nanoseconds above which a poll is long; `None` without slow lanes.
    bound: Option<u64>,
}

/// What the load table expects of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// Lane time in nanoseconds.
    pub(crate) nanos: u64,
    pub(crate) kind: Expectation,
}

/// A row of the load table, merged over lanes.
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
    /// Lanes that serve it on their slow lane.
    pub(crate) slow_on: usize,
}

impl LoadTable {
    /// `bound`: the time from which a poll is long; `None` without slow lanes.
    pub(crate) fn new(routes: (usize, usize), bound: Option<Duration>) -> Self {
        LoadTable {
            kinds: Rows::new(routes, METHODS.len()),
            overall: Estimate::default(),
            bound: bound.map(|bound| bound.as_nanos() as u64),
        }
    }

    /// The service has said whether the requests of a route are slow. Only the lane's thread may call
    /// this.
    pub(crate) fn fix(&self, route: usize, slow: bool) {
        for method in 0..METHODS.len() {
            let kind = KindIndex::new(route, method);
            self.kinds.at(usize::from(kind.bits())).tail.fix(slow);
        }
    }

    /// What is expected of a request.
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

    /// Merges the tables of several lanes: means weighted by their observations.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: KindIndex = KindIndex::from_bits(3);
    const SHORT: LongestPoll = LongestPoll { nanos: 0, is_cpu: true };

    #[test]
    fn an_unknown_kind_is_like_the_mean_of_all() {
        let table = LoadTable::new((2, 0), None);
        assert_eq!(table.expect(SLOW), 0, "nothing is known yet");
        table.observe(KindIndex::new(0, 0), 1000, 2000, SHORT);
        assert_eq!(table.expect(SLOW), 1000);
        table.observe(SLOW, 5000, 5000, SHORT);
        assert_eq!(table.expect(SLOW), 5000);
        assert_eq!(table.expect_any(), 1500, "one eighth of the way from 1000 to 5000");
    }

    #[test]
    fn the_mean_follows_what_changes() {
        let estimate = Estimate::default();
        (0..100).for_each(|_| estimate.observe(1000));
        // Integer arithmetic leaves a few nanoseconds of deviation.
        assert_eq!((estimate.mean.get(), estimate.deviation.get() / 4), (1000, 0));
        (0..100).for_each(|_| estimate.observe(9000));
        assert!((8990..=9000).contains(&estimate.mean.get()), "{estimate:?}");
    }

    #[test]
    fn lanes_are_merged_by_their_observations() {
        let (one, two) = (LoadTable::new((0, 1), None), LoadTable::new((0, 1), None));
        (0..3).for_each(|_| one.observe(SLOW, 1000, 4000, SHORT));
        two.observe(SLOW, 5000, 8000, SHORT);
        let rows = LoadTable::merge([&one, &two].into_iter());
        let [row] = rows.as_slice() else { panic!("one kind: {rows:?}") };
        assert_eq!((row.route, row.method, row.observations), (0, METHODS[3], 4));
        assert_eq!(row.lane.0, Duration::from_nanos(2000));
        assert_eq!(row.service.0, Duration::from_nanos(5000));
        assert!((row.lane_sums.seconds - 8e-6).abs() < 1e-15, "{row:?}");
        assert!((row.service_sums.squared_seconds - 112e-12).abs() < 1e-20, "{row:?}");
    }

    #[test]
    fn sums_have_the_exact_mean_and_variance_of_any_window() {
        let sums = Sums::default();
        // After a day of a busy lane, new observations must still be precise.
        (0..100_000).for_each(|_| sums.observe(864_000_000));
        let before = sums.read();
        (0..1000).for_each(|n| sums.observe(if n % 2 == 0 { 1_000_000 } else { 3_000_000 }));
        let now = sums.read();
        let mean = (now.seconds - before.seconds) / 1000.0;
        let variance = (now.squared_seconds - before.squared_seconds) / 1000.0 - mean * mean;
        assert!((mean - 2e-3).abs() < 1e-9, "{mean}");
        assert!((variance - 1e-6).abs() < 1e-9, "{variance}");
    }
}
