//! Fuzz targets: each feeds a parser of external text and checks its invariants.
//!
//! The tests run every target on its seeds. The program `fuzz` runs libFuzzer.

mod targets;

pub use targets::{TARGETS, Target};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    #[test]
    fn every_target_holds_for_its_seeds() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds"));
        for (name, run) in TARGETS {
            let seeds = fs::read_dir(folder.join(name)).expect("a folder of seeds");
            let seeds: BTreeSet<_> = seeds.map(|seed| seed.expect("a seed").path()).collect();
            assert!(!seeds.is_empty(), "{name} has no seeds");
            for seed in seeds {
                println!("{}", seed.display());
                run(&fs::read(seed).expect("a seed"));
            }
        }
    }
}
