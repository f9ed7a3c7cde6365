//! Fails the build if hyper is not the verified version. Parking and moving connections rely on
//! hyper's internals (see `src/idle/tracker.rs`), which semver does not cover. A wrong assumption
//! loses replies, or parses part of a body as a request.

use std::path::Path;
use std::process::ExitCode;

/// The hyper version that passed `make chaos PROBE=1`, and its checksum in the registry.
const VERSION: &str = "1.12.0";
const CHECKSUM: &str = "2c3e324da4c95177d6291d4c8730197c0d1822f8a9766814a4a44fa5ab797c9c";

fn main() -> ExitCode {
    println!("cargo::rustc-check-cfg=cfg(hyper_probe)");
    println!("cargo::rerun-if-env-changed=CORELANE_HYPER_PROBE");
    if std::env::var_os("CORELANE_HYPER_PROBE").is_some() {
        println!("cargo::rustc-cfg=hyper_probe");
    }
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let lock = Path::new(&folder).join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    // The crate alone has no lock file. Cargo.toml then pins the version.
    let Ok(text) = std::fs::read_to_string(lock) else { return ExitCode::SUCCESS };
    match unverified(&text) {
        None => ExitCode::SUCCESS,
        Some(found) => {
            println!(
                "cargo::error=hyper {found} is not verified: connections rest and move by what \
                 hyper {VERSION} does inside. Write its version and checksum into \
                 services/corelane/build.rs, read what src/idle/tracker.rs relies on in its source, \
                 and keep both only if `make chaos PROBE=1` passes"
            );
            ExitCode::FAILURE
        }
    }
}

/// The hyper version in a lock file, if it is not the verified one.
fn unverified(lock: &str) -> Option<String> {
    let packages = lock.split("[[package]]").filter(|text| field(text, "name") == Some("hyper"));
    packages.into_iter().find_map(|package| {
        let version = field(package, "version").unwrap_or("of no version");
        match field(package, "checksum") {
            Some(CHECKSUM) if version == VERSION => None,
            Some(_) => Some(version.to_owned()),
            None => Some(format!("{version} from another place than the registry")),
        }
    })
}

/// A field of a package in a lock file.
fn field<'a>(package: &'a str, name: &str) -> Option<&'a str> {
    package.lines().find_map(|line| {
        let value = line.strip_prefix(name)?.trim().strip_prefix('=')?;
        Some(value.trim().trim_matches('"'))
    })
}
