//! A random duration, described by its mean and standard deviation.

use super::CapacityError;

/// Durations count as fixed below this squared coefficient of variation (0.1%).
const FIXED: f64 = 1e-6;

/// Maximum standard deviation, as a multiple of the mean. If one of a million observations accounts
/// for all of the time, the deviation is 1,000 times the mean.
const WIDEST: f64 = 1e6;

/// A random duration in seconds, given by its first two moments. Where the distribution matters, it
/// is the gamma distribution with these moments, which includes fixed, Erlang and exponential
/// durations (Tijms, *A First Course in Stochastic Models*, 2003, appendix B).
///
/// ```
/// use corelane_cli::model::Time;
///
/// // The difference of two readings of a replica's sums: 1,000 requests, 7 s, 0.05 s².
/// let work = Time::from_sums(1000, 7.0, 0.05).unwrap();
/// assert!((work.mean() - 0.007).abs() < 1e-12 && (work.deviation() - 0.001).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Time {
    mean: f64,
    deviation: f64,
}

impl Time {
    /// A duration that is always 0.
    pub const ZERO: Time = Time { mean: 0.0, deviation: 0.0 };

    /// Creates a duration with this mean and standard deviation in seconds. Both must be at least
    /// 0, and the deviation at most a million times the mean.
    pub fn new(mean: f64, deviation: f64) -> Result<Time, CapacityError> {
        let finite = mean.is_finite() && deviation.is_finite();
        if finite && mean >= 0.0 && deviation >= 0.0 && deviation <= WIDEST * mean {
            Ok(Time { mean, deviation })
        } else {
            Err(CapacityError::Time { mean, deviation })
        }
    }

    /// Creates a duration from a number of observations, their sum in seconds and their sum of
    /// squares in seconds squared.
    pub fn from_sums(count: u64, sum: f64, squares: f64) -> Result<Time, CapacityError> {
        let mean = if count == 0 { 0.0 } else { sum / count as f64 };
        // Rounding can make the variance of equal observations negative.
        let variance = (squares / count.max(1) as f64 - mean * mean).max(0.0);
        Time::new(mean, variance.sqrt())
    }

    /// Creates a fixed duration.
    pub fn fixed(mean: f64) -> Result<Time, CapacityError> {
        Time::new(mean, 0.0)
    }

    /// Creates an exponentially distributed duration: its standard deviation is its mean.
    pub fn exponential(mean: f64) -> Result<Time, CapacityError> {
        Time::new(mean, mean)
    }

    /// The mean, in seconds.
    pub fn mean(self) -> f64 {
        self.mean
    }

    /// The standard deviation, in seconds.
    pub fn deviation(self) -> f64 {
        self.deviation
    }

    /// Squared coefficient of variation: 0 for a fixed duration, 1 for an exponential duration.
    pub fn scv(self) -> f64 {
        if self.mean > 0.0 { (self.deviation / self.mean).powi(2) } else { 0.0 }
    }

    pub(super) fn is_fixed(self) -> bool {
        self.scv() < FIXED
    }

    /// E\[S²\], in seconds squared.
    pub fn second_moment(self) -> f64 {
        self.mean.powi(2) + self.deviation.powi(2)
    }

    /// E\[S³\] of the gamma distribution, in seconds cubed: its moments are m³ (1 + c)(1 + 2c).
    pub fn third_moment(self) -> f64 {
        let c = self.scv();
        self.mean.powi(3) * (1.0 + c) * (1.0 + 2.0 * c)
    }

    pub(super) fn plus(self, other: Time) -> Time {
        Time { mean: self.mean + other.mean, deviation: self.deviation.hypot(other.deviation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_known_distributions() {
        let time = |made: Result<Time, CapacityError>| made.expect("it is allowed");
        let exponential = time(Time::exponential(2.0));
        assert_eq!((exponential.second_moment(), exponential.third_moment()), (8.0, 48.0));
        let fixed = time(Time::fixed(2.0));
        assert_eq!((fixed.second_moment(), fixed.third_moment()), (4.0, 8.0));
        assert!(fixed.is_fixed() && !exponential.is_fixed());
        assert_eq!(time(Time::from_sums(0, 0.0, 0.0)), Time::ZERO);
    }

    #[test]
    fn no_time_is_negative_or_endless() {
        let wrong = [(-1.0, 0.0), (1.0, -1.0), (0.0, 1.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0)];
        Time::new(1e-320, 1.0).expect_err("its coefficient of variation is no number");
        for (mean, deviation) in wrong {
            Time::new(mean, deviation).expect_err("it is no duration");
        }
    }
}
