//! Lets libFuzzer search for inputs that break the target named in `FUZZ_TARGET`.
//!
//! libFuzzer starts from files, so the target's seeds are first written to the `FUZZ_SEEDS` folder.

#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs};

use corelane_fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}, which is no target"))
});

fn write_seeds() {
    let folder = PathBuf::from(env::var_os("FUZZ_SEEDS").expect("FUZZ_SEEDS names a folder"));
    fs::create_dir_all(&folder).expect("a folder for the seeds");
    for (name, input) in TARGET.seeds {
        fs::write(folder.join(name), input).expect("a seed");
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| (TARGET.run)(input));
