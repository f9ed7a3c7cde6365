//! Reads and validates the settings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use corelane_service::flags;

use super::{Settings, file};
use crate::cpus::Cpus;
use crate::kubelet::Kubelet;
use crate::profile::Profile;

/// Environment variables with this prefix are settings.
const PREFIX: &str = "NODE_TUNER_";

/// Reads the command line, the environment and the file, or returns the exit code.
pub(crate) fn read() -> Result<Settings, ExitCode> {
    let plain = Settings::command();
    let named = flags::read(&plain, &[PREFIX])?;
    let from_file = match named.get_one::<PathBuf>("config") {
        None => BTreeMap::new(),
        Some(path) => file::read(path).map_err(|error| reject(ErrorKind::InvalidValue, error))?,
    };
    let with_file = file::as_defaults(plain, &from_file)
        .map_err(|error| reject(ErrorKind::UnknownArgument, error))?;
    let matches = flags::read(&with_file, &[PREFIX])?;
    let settings = Settings::from_arg_matches(&matches).map_err(flags::exit)?;
    let settings = settings.validated().map_err(|error| reject(ErrorKind::InvalidValue, error))?;
    if settings.check { Err(ExitCode::SUCCESS) } else { Ok(settings) }
}

fn reject(kind: ErrorKind, error: String) -> ExitCode {
    flags::exit(Settings::command().error(kind, error))
}

impl Settings {
    /// Reads the named files, and checks the rules that clap cannot express.
    fn validated(mut self) -> Result<Self, String> {
        self.interfaces.retain(|name| !name.is_empty());
        if self.restores() {
            // The wanted values do not matter, and must not prevent a restore.
            self.housekeeping.clear();
        } else {
            self.knobs = self.overrides.iter().flat_map(|pairs| pairs.0.clone()).collect();
            // Read once: it may be a pipe.
            let kubelet = self.kubelet_config.as_deref().map(Kubelet::read).transpose();
            self.kubelet = kubelet.map_err(|error| format!("kubelet-config = {error}"))?;
        }
        if !self.root.is_dir() {
            return Err(format!("root = {:?}: allowed is an existing folder", self.root));
        }
        let cpus = &self.housekeeping;
        if Cpus::from_list(cpus).is_none() {
            return Err(format!(
                "housekeeping = {cpus:?}: allowed is a list of CPUs, such as 0-1,4"
            ));
        }
        Profile::new(&self.profile, &self.knobs)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_consistent() {
        Settings::command().debug_assert();
    }
}
