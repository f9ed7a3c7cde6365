//! Runs libFuzzer on the target named by `FUZZ_TARGET`.

#![no_main]

use std::sync::LazyLock;

use corelane_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(target, _)| *target == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, which is no target")).1
});

fuzz_target!(|input: &[u8]| TARGET(input));
