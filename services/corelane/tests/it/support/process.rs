//! Tests that need a process of their own: this program, started once more.

use std::process::Command;

/// This program, told to run the ignored tests whose names contain `name`.
pub(crate) fn ignored_tests(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.args([name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}
