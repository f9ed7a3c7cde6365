//! Reads and validates the settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use corelane_service::{config, flags};
use serde_json::Value;

use super::Settings;
use crate::cpus::Cpus;
use crate::kubelet::Kubelet;
use crate::profile::Profile;

const PREFIX: &str = "NODE_TUNER_";

pub(crate) fn read() -> Result<Settings, ExitCode> {
    let plain = Settings::command();
    let named = flags::read(&plain, &[PREFIX])?;
    let from_file = match named.get_one::<PathBuf>("config") {
        None => BTreeMap::new(),
        Some(path) => read_file(path).map_err(reject)?,
    };
    let with_file = as_defaults(plain, &from_file).map_err(|errors| reject(errors.join("\n")))?;
    let matches = flags::read(&with_file, &[PREFIX])?;
    let settings = Settings::from_arg_matches(&matches).map_err(reject)?;
    let settings = settings.validated();
    let settings = settings.map_err(|errors| reject(errors.join("\n")))?;
    if settings.check { Err(ExitCode::SUCCESS) } else { Ok(settings) }
}

fn reject(error: impl std::fmt::Display) -> ExitCode {
    flags::reject(Settings::command(), error)
}

impl Settings {
    /// Reads the named files and checks rules that clap cannot express.
    fn validated(mut self) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        self.interfaces.retain(|name| !name.is_empty());
        if self.restores() {
            // A restore does not use the wanted values, so invalid values must not prevent it.
            self.housekeeping.clear();
        } else {
            self.knobs = self.overrides.iter().flat_map(|pairs| pairs.0.clone()).collect();
            // The file is read only once, because it may be a pipe.
            match self.kubelet_config.as_deref().map(Kubelet::read).transpose() {
                Ok(kubelet) => self.kubelet = kubelet,
                Err(error) => errors.push(format!("kubelet-config = {error}")),
            }
        }
        if !self.root.is_dir() {
            errors.push(format!("root = {:?}: expected an existing folder", self.root));
        }
        let cpus = &self.housekeeping;
        if Cpus::from_list(cpus).is_none() {
            errors.push(format!("housekeeping = {cpus:?}: expected a list of CPUs, such as 0-1,4"));
        }
        errors.extend(Profile::new(&self.profile, &self.knobs).err().unwrap_or_default());
        if errors.is_empty() { Ok(self) } else { Err(errors) }
    }
}

/// Reads a file's values by flag name. Keys are flag names, with nested maps for dots.
fn read_file(path: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let value: Value =
        serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(format!("{}: expected a map of settings", path.display()));
    }
    let mut found = BTreeMap::new();
    flatten("", &value, &mut found);
    Ok(found)
}

fn flatten(name: &str, value: &Value, found: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Object(map) if name == "knobs" => {
            // As in other sources, null counts as absent.
            let given = map.iter().filter(|(_, value)| !value.is_null());
            let pairs = given.map(|(knob, value)| match value {
                // Some YAML parsers read `off` as false.
                Value::Bool(false) => format!("{knob}=off"),
                value => format!("{knob}={}", text(value)),
            });
            found.insert(name.to_owned(), pairs.collect());
        }
        Value::Object(map) => {
            for (key, value) in map {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, found);
            }
        }
        Value::Array(items) => {
            let given = items.iter().filter(|value| !value.is_null());
            found.insert(name.to_owned(), given.map(text).collect());
        }
        Value::Null => {}
        value => {
            found.insert(name.to_owned(), vec![text(value)]);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Makes a file's values the command's defaults, so that they are checked like flags.
fn as_defaults(
    mut command: Command,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Command, Vec<String>> {
    let in_files = |it: &&Arg| !matches!(it.get_id().as_str(), "config" | "check");
    let is_list = |it: &Arg| matches!(it.get_action(), ArgAction::Append);
    let known = command.get_arguments().filter(in_files);
    let known: Vec<(String, bool)> =
        known.map(|it| (it.get_id().to_string(), is_list(it))).collect();
    let names: Vec<_> = known.iter().map(|(name, _)| name.clone()).collect();
    let mut errors = Vec::new();
    for (name, values) in values {
        match known.iter().find(|it| it.0 == *name) {
            None => errors.push(config::unknown(name, &values.join(","), "file", &names)),
            Some((_, false)) if values.len() != 1 => {
                errors.push(format!("{name} = {values:?}: expected one value"));
            }
            Some(_) => {}
        }
        if !errors.is_empty() {
            continue;
        }
        // The values are leaked once per process, because clap needs static defaults.
        let values = values.iter().map(|value| &*value.clone().leak());
        command = command.mut_arg(name.as_str(), |it| it.default_values(values));
    }
    if errors.is_empty() { Ok(command) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_consistent() {
        Settings::command().debug_assert();
    }

    #[test]
    fn null_is_absent() {
        let value = serde_json::json!({
            "a": null, "b": {"c": null, "d": 1}, "list": [null, "x"], "knobs": {"one": null, "two": false},
        });
        let mut found = BTreeMap::new();
        flatten("", &value, &mut found);
        let found: Vec<_> =
            found.iter().map(|(name, values)| (name.as_str(), values.join(","))).collect();
        let values = [("b.d", "1"), ("knobs", "two=off"), ("list", "x")];
        assert_eq!(found, values.map(|(name, value)| (name, value.to_owned())));
    }
}
