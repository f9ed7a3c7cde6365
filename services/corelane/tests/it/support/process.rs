//! Runs tests in a separate process.

use std::process::{Command, Stdio};

/// This binary with a filter for ignored tests.
pub(crate) fn ignored_tests(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Runs exactly `count` ignored tests one after another, with no other tests in parallel.
pub(crate) fn run_alone(name: &str, count: usize) {
    let output = ignored_tests(name).stderr(Stdio::inherit()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!(" {count} passed")), "{said}");
}
