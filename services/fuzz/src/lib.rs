//! Fuzz targets. Each target feeds one parser of external text and checks its invariants.
//!
//! Tests run every target on its seeds and on similar inputs. The `fuzz` program lets libFuzzer
//! search for more.

mod targets;

pub use targets::{TARGETS, Target};

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{TARGETS, Target};

    const NEAR: usize = 500;

    struct Tries<'a>(&'a Target, &'a [u8]);

    impl Drop for Tries<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("{} of \"{}\"", self.0.name, self.1.escape_ascii());
            }
        }
    }

    #[test]
    fn every_target_holds_for_its_seeds() {
        for target in TARGETS {
            assert!(!target.seeds.is_empty(), "{} has no seeds", target.name);
            for (_, input) in target.seeds {
                let _tries = Tries(target, input);
                (target.run)(input);
            }
        }
    }

    /// The inputs are the same in each run. The `fuzz` program searches further, because it knows
    /// which inputs reach new code.
    #[test]
    fn every_target_holds_near_its_seeds() {
        for target in TARGETS {
            let mut random = Rng::with_seed(1);
            for _ in 0..NEAR {
                let input = near(target, &mut random);
                let _tries = Tries(target, &input);
                (target.run)(&input);
            }
        }
    }

    fn near(target: &Target, random: &mut Rng) -> Vec<u8> {
        let seed = |random: &mut Rng| target.seeds[random.usize(..target.seeds.len())].1;
        let mut input = seed(random).to_vec();
        for _ in 0..random.usize(1..=4) {
            let other = seed(random);
            let from = random.usize(..other.len());
            let part = &other[from..random.usize(from..=other.len())];
            let start = random.usize(..=input.len());
            let end = input.len().min(start + random.usize(..16));
            match random.u8(..5) {
                0 => drop(input.drain(start..end)),
                1 => drop(input.splice(start..end, part.iter().copied())),
                2 => drop(input.splice(start..start, part.iter().copied())),
                3 => input.insert(start, random.u8(..128)),
                _ => input[start..end].iter_mut().take(1).for_each(|byte| *byte = random.u8(..)),
            }
        }
        input
    }
}
