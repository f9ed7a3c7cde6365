//! Random numbers, unsuitable for security.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
/// seeded by the operating system.
#[derive(Debug)]
pub(crate) struct Random(Cell<u64>);

impl Random {
    pub(crate) fn new() -> Self {
        Random(Cell::new(RandomState::new().build_hasher().finish()))
    }

    #[cfg(any(test, feature = "chaos"))]
    pub(crate) fn seeded(seed: u64) -> Self {
        Random(Cell::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in [0, 1).
    pub(crate) fn chance(&self) -> f64 {
        self.next() as f64 / u64::MAX as f64
    }
}

/// Generates 128-bit identifiers from two generators. With a single 64-bit generator, lanes across
/// many replicas would produce a collision after a few billion identifiers.
#[derive(Debug)]
pub(crate) struct Identifiers(Random, Random);

impl Identifiers {
    pub(crate) fn new() -> Self {
        Identifiers(Random::new(), Random::new())
    }

    pub(crate) fn wide(&self) -> [u8; 16] {
        let both = u128::from(self.0.next()) << 64 | u128::from(self.1.next());
        both.to_be_bytes()
    }

    /// Returns a non-zero 64-bit identifier.
    pub(crate) fn narrow(&self) -> [u8; 8] {
        self.0.next().max(1).to_be_bytes()
    }

    pub(crate) fn falls_to(&self, ratio: f64) -> bool {
        ratio > 0.0 && self.1.chance() <= ratio
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_differ_between_lanes_and_from_each_other() {
        let (one, two) = (Identifiers::new(), Identifiers::new());
        let mut all: Vec<_> = (0..1000).flat_map(|_| [one.wide(), two.wide()]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 2000);
    }

    #[test]
    fn a_ratio_is_kept_at_its_ends() {
        let identifiers = Identifiers::new();
        assert!((0..1000).all(|_| identifiers.falls_to(1.0) && !identifiers.falls_to(0.0)));
    }
}
