//! Fuzz targets: each feeds one reader of outside text and checks what always holds.
//!
//! The tests run every target on its seeds. The program `fuzz` lets libFuzzer look for other inputs.

mod targets;

pub use targets::{TARGETS, Target};

#[cfg(test)]
mod tests {
    use super::TARGETS;

    #[test]
    fn every_target_holds_for_its_seeds() {
        for target in TARGETS {
            assert!(!target.seeds.is_empty(), "{} has no seeds", target.name);
            for (seed, input) in target.seeds {
                println!("{} {seed}", target.name);
                (target.run)(input);
            }
        }
    }
}
