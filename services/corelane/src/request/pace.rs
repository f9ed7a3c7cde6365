//! The minimum rate at which a client may send or read.

use std::time::Duration;

/// A rate that a client must reach on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    rate: Option<u64>,
    grace: Duration,
}

impl Pace {
    pub(crate) fn new(rate: Option<u64>, grace: Duration) -> Self {
        Pace { rate, grace }
    }

    /// Time that a client has until its first byte.
    pub(crate) fn grace(self) -> Duration {
        self.grace
    }

    /// Time that the client has left, given that it had `left`, has since kept the server waiting
    /// for `passed`, and has sent or read `bytes`. A client that is too slow has no time left.
    ///
    /// Each byte adds time at this rate, up to the grace period: after a burst, a client may pause
    /// for as long as a client that has just started.
    pub(crate) fn spend(self, left: Duration, bytes: u64, passed: Duration) -> Duration {
        let Some(rate) = self.rate else { return self.grace };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        left.saturating_add(earned).min(self.grace).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_client_below_the_rate_runs_out_of_time() {
        let pace = Pace::new(Some(100), 10 * SECOND);
        let seconds = |bytes| {
            let mut left = pace.grace();
            (1..1000).find(|_| {
                left = pace.spend(left, bytes, SECOND);
                left.is_zero()
            })
        };
        assert_eq!((seconds(0), seconds(50)), (Some(10), Some(19)));
        assert_eq!((seconds(100), seconds(1000)), (None, None));
    }

    #[test]
    fn a_burst_gives_no_more_time_than_the_grace() {
        let pace = Pace::new(Some(100), 10 * SECOND);
        assert_eq!(pace.spend(SECOND, u64::MAX, SECOND), 9 * SECOND);
    }

    #[test]
    fn without_a_rate_time_never_ends() {
        let pace = Pace::new(None, SECOND);
        assert_eq!(pace.spend(SECOND, 0, 1000 * SECOND), SECOND);
    }
}
