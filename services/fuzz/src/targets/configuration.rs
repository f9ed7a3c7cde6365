//! The server's configuration: file, environment and flags.
//!
//! The output of `--check` is a configuration file with the same values.
//!
//! The input is a TOML file, a line `---`, then a line for each variable (`NAME=value`) or flag.

use corelane_server::fuzzing::configuration;

const FILE: [&str; 3] = ["corelane-server", "--config", "corelane.toml"];

pub(super) fn run(text: &str) {
    let (file, lines) = text.split_once("\n---\n").unwrap_or((text, ""));
    let (flags, variables): (Vec<_>, Vec<_>) =
        lines.lines().partition(|line| line.starts_with('-'));
    let variables = variables.iter().filter_map(|line| line.split_once('='));
    let arguments = FILE.into_iter().chain(flags);
    match configuration(file, variables, arguments) {
        Ok(Some(accepted)) => {
            let again = configuration(&accepted.shown, [], FILE);
            let again = again.unwrap_or_else(|error| panic!("{error}\nin\n{}", accepted.shown));
            assert_eq!(again.map(|again| again.values), Some(accepted.values));
        }
        // Help or the version was requested.
        Ok(None) => {}
        Err(error) => assert!(!error.is_empty(), "an error says what is wrong"),
    }
}
