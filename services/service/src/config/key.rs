//! The keys of a program.

use clap::{Arg, ArgAction, Command};

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name in the file. A dot separates the table.
    pub name: &'static str,
    /// The value if none is given.
    pub default: &'static str,
    /// A one-line description.
    pub help: &'static str,
}

impl Key {
    /// `limits.header_bytes` is `--limits.header-bytes`.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// With the prefix `CORELANE_`, `limits.header_bytes` is `CORELANE_LIMITS_HEADER_BYTES`.
    pub fn variable(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }
}

/// A program and its keys.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name on the command line.
    pub name: &'static str,
    /// What `--version` prints.
    pub version: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Environment variables with this prefix are settings.
    pub prefix: &'static str,
    /// The keys, in the order of the help.
    pub keys: &'static [Key],
}

impl Program {
    /// The variable that names the file, as `--config` does.
    pub(super) fn file_variable(&self) -> String {
        format!("{}CONFIG", self.prefix)
    }

    pub(super) fn command(&self) -> Command {
        let file = self.file_variable();
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help(format!("TOML file with any of the keys below [environment: {file}]"));
        let check = Arg::new("check")
            .long("check")
            .action(ArgAction::SetTrue)
            .help("Validate the configuration, show each value with its origin, and exit");
        let keys = self.keys.iter().map(|key| {
            let default = if key.default.is_empty() { "none" } else { key.default };
            let (help, variable) = (key.help, key.variable(self.prefix));
            Arg::new(key.name)
                .long(key.flag())
                .value_name("VALUE")
                // So that the error names the key's bounds, not an unknown flag `-1`.
                .allow_negative_numbers(true)
                .help(format!("{help} [default: {default}] [environment: {variable}]"))
        });
        Command::new(self.name)
            .version(self.version)
            .about(self.about)
            .after_help(
                "Flags take precedence over the environment, the environment over the file.",
            )
            .args([config, check])
            .args(keys)
    }
}
