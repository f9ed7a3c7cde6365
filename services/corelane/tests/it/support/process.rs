//! Runs tests that need a separate process: this program, started once more.

use std::process::{Command, Stdio};

/// This program, told to run the ignored tests whose names contain `name`.
pub(crate) fn ignored_tests(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Runs the ignored tests whose names contain `name`, one after the other, in a process without other tests. All
/// `count` of them have to pass.
pub(crate) fn run_alone(name: &str, count: usize) {
    let output = ignored_tests(name).stderr(Stdio::inherit()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!(" {count} passed")), "{said}");
}
