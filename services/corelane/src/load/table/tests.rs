//! Tests that the load table learns the right costs.

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
    // New observations must stay precise after a busy lane has run for a day.
    (0..100_000).for_each(|_| sums.observe(864_000_000));
    let before = sums.read();
    (0..1000).for_each(|n| sums.observe(if n % 2 == 0 { 1_000_000 } else { 3_000_000 }));
    let now = sums.read();
    let mean = (now.seconds - before.seconds) / 1000.0;
    let variance = (now.squared_seconds - before.squared_seconds) / 1000.0 - mean * mean;
    assert!((mean - 2e-3).abs() < 1e-9, "{mean}");
    assert!((variance - 1e-6).abs() < 1e-9, "{variance}");
}

const BOUND: u64 = 500_000;
const LONG: LongestPoll = LongestPoll { nanos: 7_000_000, is_cpu: true };
const INTERRUPTED: LongestPoll = LongestPoll { nanos: 7_000_000, is_cpu: false };

/// Adds observations until `done`. Returns the number of requests that it took.
fn observe(tail: &Tail, from: u64, what: LongestPoll, done: impl Fn(&Tail) -> bool) -> u64 {
    (from..)
        .find(|&before| {
            tail.observe(before, what, BOUND);
            done(tail)
        })
        .expect("endless")
}

#[test]
fn the_first_long_request_makes_a_kind_slow_and_many_short_ones_end_that() {
    let tail = Tail::default();
    tail.observe(0, LONG, BOUND);
    assert!(tail.is_slow());
    let last = observe(&tail, 1, SHORT, |tail| !tail.is_slow());
    assert!((WINDOW..4 * WINDOW).contains(&last), "{last}");
    assert_eq!(tail.expectation(), Expectation::Doubtful, "it is measured for a while");
    let last = observe(&tail, last, SHORT, |tail| tail.0.get() == 0);
    assert!(last < 100 * WINDOW, "{last}");
}

#[test]
fn a_kind_is_decided_by_its_tail() {
    for (every, slow) in [(20, true), (50, true), (2000, false)] {
        let tail = Tail::default();
        for n in 0..20_000 {
            tail.observe(n, if n % every == every - 1 { LONG } else { SHORT }, BOUND);
        }
        assert_eq!(tail.is_slow(), slow, "one in {every}");
    }
}

#[test]
fn an_interruption_is_a_reason_to_measure_only() {
    let tail = Tail::default();
    (0..100).for_each(|n| tail.observe(n, SHORT, BOUND));
    assert_eq!(tail.expectation(), Expectation::Short);
    tail.observe(100, INTERRUPTED, BOUND);
    assert!(tail.expectation() == Expectation::Doubtful);
    let first = Tail::default();
    first.observe(0, INTERRUPTED, BOUND);
    assert!(first.is_slow(), "nothing else is known");
    let last = observe(&first, 1, SHORT, |tail| !tail.is_slow());
    assert!(last < 10, "{last}");
}

#[test]
fn what_is_fixed_stays() {
    for slow in [false, true] {
        let tail = Tail::default();
        tail.fix(slow);
        (0..1000).for_each(|n| tail.observe(n, if slow { SHORT } else { LONG }, BOUND));
        let expected = if slow { Expectation::Long } else { Expectation::Short };
        assert_eq!((tail.expectation(), tail.is_fixed()), (expected, true));
    }
}
