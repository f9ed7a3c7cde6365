//! The gamma distribution of a [`Time`].

use statrs::function::gamma::{gamma_lr, gamma_ur};

use super::Time;
use fastrand::Rng;

impl Time {
    fn shape(self) -> f64 {
        1.0 / self.scv()
    }

    fn scale(self) -> f64 {
        self.mean() * self.scv()
    }

    /// P(S > t).
    pub(super) fn tail(self, t: f64) -> f64 {
        if t <= 0.0 {
            1.0
        } else if self.is_fixed() {
            if t < self.mean() { 1.0 } else { 0.0 }
        } else {
            gamma_ur(self.shape(), self.scaled(t))
        }
    }

    /// `t` in units of the scale, clamped to the domain of the gamma function.
    fn scaled(self, t: f64) -> f64 {
        (t / self.scale()).clamp(f64::MIN_POSITIVE, f64::MAX)
    }

    /// E\[min(S, t)\], the area under the tail from 0 to t.
    pub(super) fn mean_up_to(self, t: f64) -> f64 {
        if t <= 0.0 {
            0.0
        } else if self.is_fixed() {
            t.min(self.mean())
        } else {
            // Multiplying the density by its argument gives the density of the next shape.
            self.mean() * gamma_lr(self.shape() + 1.0, self.scaled(t)) + t * self.tail(t)
        }
    }

    pub(super) fn draw(self, random: &mut Rng) -> f64 {
        if self.is_fixed() { self.mean() } else { self.scale() * gamma(self.shape(), random) }
    }
}

/// Draws from the gamma distribution with this shape and scale 1.
///
/// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM Transactions
/// on Mathematical Software 26, 2000; section 6 for shapes below 1.
fn gamma(shape: f64, random: &mut Rng) -> f64 {
    if shape < 1.0 {
        return gamma(shape + 1.0, random) * random.f64().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(random);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && random.f64().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Draws from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).max(f64::MIN_POSITIVE).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

pub(super) fn exponential(mean: f64, random: &mut Rng) -> f64 {
    -mean * (1.0 - random.f64()).max(f64::MIN_POSITIVE).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_extremes_is_a_share() {
        for (mean, deviation) in [(1e-320, 1e-315), (1e-9, 1e-3), (3600.0, 3.6e9), (1e-9, 1e-11)] {
            let time = Time::new(mean, deviation).expect("a time");
            for t in [1e-320, 1e-9, 1.0, 1e300] {
                assert!((0.0..=1.0).contains(&time.tail(t)), "{time:?} {t}");
                assert!(time.mean_up_to(t) >= 0.0, "{time:?} {t}");
            }
        }
    }

    #[test]
    fn drawn_ones_have_the_moments_and_the_tail_that_were_asked_for() {
        let mut random = Rng::with_seed(1);
        for deviation in [0.0, 0.3, 1.0, 1.5] {
            let time = Time::new(1.0, deviation).expect("a time");
            let drawn: Vec<f64> = (0..200_000).map(|_| time.draw(&mut random)).collect();
            let mean_of = |of: &dyn Fn(f64) -> f64| {
                drawn.iter().map(|&x| of(x)).sum::<f64>() / drawn.len() as f64
            };
            let close = |seen: f64, wanted: f64, what: &str| {
                assert!((seen - wanted).abs() < 0.03 * wanted.max(0.5), "{what}: {seen}, {wanted}");
            };
            close(mean_of(&|x| x), 1.0, "mean");
            close(mean_of(&|x| x * x), time.second_moment(), "second moment");
            close(mean_of(&|x| f64::from(x > 1.7)), time.tail(1.7), "tail");
            close(mean_of(&|x| x.min(0.8)), time.mean_up_to(0.8), "mean up to");
        }
    }
}
