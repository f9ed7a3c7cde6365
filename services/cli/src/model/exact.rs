//! Waiting-time distribution of a lane that serves requests in order of arrival.
//!
//! Pollaczek-Khinchine series: the wait is the sum of a geometrically distributed number of
//! residual service times, where the ratio is the load. On a grid, Panjer's recursion computes this
//! sum exactly (H. H. Panjer, "Recursive evaluation of a family of compound distributions", ASTIN
//! Bulletin 12, 1981).

use super::Time;

/// Number of grid points; the recursion's cost grows with its square.
const POINTS: usize = 4096;

const BEYOND: f64 = 1e-6;

/// Distribution of the wait for one lane, on a grid.
#[derive(Clone, Debug)]
pub struct Waiting {
    step: f64,
    probabilities: Vec<f64>,
}

impl Waiting {
    /// Computes the wait for this request rate and mix of kinds; `None` for a load of 1 or more.
    ///
    /// ```
    /// use corelane_cli::model::{Time, Waiting};
    ///
    /// // M/M/1: the share of requests that wait longer than t is ρ exp(−(1 − ρ) t / E[S]).
    /// let wait = Waiting::new(800.0, &[(1.0, Time::exponential(1e-3).unwrap())]).unwrap();
    /// assert!((wait.tail(0.01) - 0.8 * (-2.0f64).exp()).abs() < 1e-3);
    /// ```
    pub fn new(rate: f64, kinds: &[(f64, Time)]) -> Option<Waiting> {
        let over_kinds = |of: &dyn Fn(Time) -> f64| -> f64 {
            kinds.iter().map(|&(share, time)| share * of(time)).sum()
        };
        let mean = over_kinds(&Time::mean);
        let (second, third) = (over_kinds(&Time::second_moment), over_kinds(&Time::third_moment));
        let busy = rate * mean;
        if busy.is_nan() || busy >= 1.0 || busy <= 0.0 {
            return None;
        }
        // L. Takács, "A single-server queue with Poisson input", Operations Research 10, 1962. The
        // larger of the two terms determines the length of the grid: the first represents heavy
        // traffic, and the second represents a single long request.
        let wait = rate * second / (2.0 * (1.0 - busy));
        let spread = (2.0 * wait * wait + rate * third / (3.0 * (1.0 - busy))).sqrt();
        let step = spread * -BEYOND.ln() / POINTS as f64;
        // Residual times, rounded to the nearest grid point.
        let area = |t: f64| over_kinds(&|time| time.mean_up_to(t)) / mean;
        let edges: Vec<f64> = (0..=POINTS).map(|n| area((n as f64 - 0.5) * step)).collect();
        let residual: Vec<f64> = edges.windows(2).map(|edge| edge[1] - edge[0]).collect();
        let scale = 1.0 / (1.0 - busy * residual[0]);
        let mut probabilities = vec![(1.0 - busy) * scale];
        for n in 1..POINTS {
            let before = probabilities.iter().rev().zip(&residual[1..]);
            let sum: f64 = before.map(|(wait, residual)| wait * residual).sum();
            debug_assert_eq!(probabilities.len(), n);
            probabilities.push(busy * scale * sum);
        }
        Some(Waiting { step, probabilities })
    }

    /// The share of requests that wait longer than `t` seconds.
    pub fn tail(&self, t: f64) -> f64 {
        let upto = (t / self.step + 0.5).max(0.0) as usize;
        1.0 - self.probabilities.iter().take(upto + 1).sum::<f64>()
    }

    /// Share of requests with a sojourn time above `t` seconds.
    pub fn response_tail(&self, t: f64, service: Time) -> f64 {
        let each = self.probabilities.iter().enumerate();
        let within: f64 =
            each.map(|(n, p)| p * (1.0 - service.tail(t - n as f64 * self.step))).sum();
        1.0 - within
    }

    /// Mean wait, in seconds.
    pub fn mean(&self) -> f64 {
        let each = self.probabilities.iter().enumerate();
        each.map(|(n, p)| n as f64 * self.step * p).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::wait::pollaczek_khinchine;

    #[test]
    fn its_mean_is_pollaczeks() {
        for deviation in [0.0, 0.5e-3, 2e-3] {
            for rate in [200.0, 950.0] {
                let time = Time::new(1e-3, deviation).expect("a time");
                let waiting = Waiting::new(rate, &[(1.0, time)]).expect("below 1");
                let mean = pollaczek_khinchine(rate, 1e-3, time.second_moment());
                let off = waiting.mean() / mean - 1.0;
                assert!(off.abs() < 0.01, "{deviation} at {rate}: {off}");
            }
        }
    }

    #[test]
    fn its_tail_is_that_of_fixed_times() {
        // Erlang's series of 1909 for M/D/1, for a wait of x service times: `P(W <= x) = (1 - r)
        // sum over j to x of (-r (x - j))^j / j! exp(r (x - j))`.
        let (busy, x) = (0.7f64, 4.0f64);
        let mut factorial = 1.0;
        let within: f64 = (0..=x as i32)
            .map(|j| {
                factorial *= f64::from(j.max(1));
                let left = busy * (x - f64::from(j));
                (-left).powi(j) / factorial * left.exp()
            })
            .sum();
        let time = Time::fixed(1.0).expect("a time");
        let waiting = Waiting::new(busy, &[(1.0, time)]).expect("below 1");
        let wanted = 1.0 - (1.0 - busy) * within;
        assert!((waiting.tail(x) / wanted - 1.0).abs() < 0.01, "{} {wanted}", waiting.tail(x));
        assert!((waiting.response_tail(x + 1.0, time) / wanted - 1.0).abs() < 0.01);
    }
}
