//! What a lane learns about the longest polls of a kind of request.

use crate::metrics::Count;

/// Weight of a new observation once there are as many; before, the share is the plain mean.
const WINDOW: u64 = 128;

/// Share of requests with a long poll from which a kind is slow, and below which it is not any more.
/// Two bounds, so that a kind near one does not change with each request.
const SLOW_FROM: u64 = ONE / 100;
const SLOW_UNTIL: u64 = ONE / 400;

/// Requests that are measured by the clock of the thread after a long poll.
const WATCHED: u64 = 256;

/// A share of 1.
const ONE: u64 = (1 << SHARE_BITS) - 1;
const SHARE_BITS: u32 = 32;
/// A share so small that it counts as none.
const NONE: u64 = ONE >> 20;
/// The first long poll of a kind that was not measured by the clock of the thread, as it may have been
/// interrupted: slow for a few requests, which decide.
const DOUBTFUL: u64 = ONE / 50;

const WATCH_BITS: u32 = 16;
const SLOW: u64 = 1 << (SHARE_BITS + WATCH_BITS);
const FIXED: u64 = SLOW << 1;

/// What polls a request is expected to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// Short ones.
    Short,
    /// Short ones, but a recent one of its kind was long.
    Doubtful,
    /// A long one.
    Long,
    /// No request of its kind was observed.
    Unknown,
}

/// The longest poll of a request's handler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongestPoll {
    pub(crate) nanos: u64,
    /// By the CPU clock of the thread. Otherwise by the wall clock, which also runs while the thread is
    /// interrupted.
    pub(crate) is_cpu: bool,
}

/// The share of requests of one kind with a long poll, and what follows from it, in one word: a lane
/// reads it for every request. 0 for a kind without long polls. Written by one thread.
#[derive(Debug, Default)]
pub(crate) struct Tail(Count);

impl Tail {
    /// What the next request of this kind is expected to do. Most kinds never had a long poll.
    #[inline]
    pub(crate) fn expectation(&self) -> Expectation {
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
    pub(crate) fn is_slow(&self) -> bool {
        self.0.get() & SLOW != 0
    }

    /// Whether the service has said what the kind costs.
    pub(crate) fn is_fixed(&self) -> bool {
        self.0.get() & FIXED != 0
    }

    pub(crate) fn fix(&self, slow: bool) {
        self.0.set(FIXED | if slow { SLOW } else { 0 });
    }

    /// Adds an observation, after so many others.
    #[inline]
    pub(crate) fn observe(&self, before: u64, longest: LongestPoll, bound: u64) {
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
mod tests {
    use super::*;

    const BOUND: u64 = 500_000;
    const SHORT: LongestPoll = LongestPoll { nanos: 100_000, is_cpu: true };
    const LONG: LongestPoll = LongestPoll { nanos: 7_000_000, is_cpu: true };
    const INTERRUPTED: LongestPoll = LongestPoll { nanos: 7_000_000, is_cpu: false };

    /// Observes until `done`, and returns after how many.
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
}
