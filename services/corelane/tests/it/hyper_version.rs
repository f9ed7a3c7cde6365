//! The build fails with another hyper than the one that resting and moving were verified with.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Builds the crate's build script and runs it beside this lock file.
fn build_with(lock: &str) -> Output {
    let folder = TempDir::new().expect("a folder");
    let manifest = folder.path().join("corelane");
    std::fs::create_dir(&manifest).expect("a folder");
    std::fs::write(folder.path().join("Cargo.lock"), lock).expect("write");
    let script = folder.path().join("script");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compiler = Command::new(rustc);
    compiler.args(["--edition=2024", "-o"]).arg(&script).arg(source);
    let built = compiler.output().expect("a compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Command::new(&script).env("CARGO_MANIFEST_DIR", &manifest).output().expect("it runs")
}

#[test]
fn only_the_verified_hyper_is_built_with() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    let lock = std::fs::read_to_string(lock).expect("a lock file");
    assert!(build_with(&lock).status.success());

    let at = lock.find("name = \"hyper\"\n").expect("hyper is locked");
    let (before, package) = lock.split_at(at);
    let newer = package.replacen("version = \"", "version = \"9", 1);
    let patched = package.replacen("checksum = ", "# checksum = ", 1);
    for (package, said) in [(newer, "hyper 9"), (patched, "another place")] {
        let output = build_with(&format!("{before}{package}"));
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success(), "{words}");
        assert!(words.contains(said) && words.contains("make chaos PROBE=1"), "{words}");
    }
}
