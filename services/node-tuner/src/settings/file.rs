//! The configuration file. Its keys are those of the flags, with nested maps for dots.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use serde_json::Value;

/// The values of a file by the names of their flags.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Vec<String>>, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let value: Value =
        serde_saphyr::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(format!("{}: allowed is a map of settings", path.display()));
    }
    let mut found = BTreeMap::new();
    flatten("", &value, &mut found);
    Ok(found)
}

fn flatten(name: &str, value: &Value, found: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Object(map) if name == "knobs" => {
            let pairs = map.iter().map(|(knob, value)| match value {
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
            found.insert(name.to_owned(), items.iter().map(text).collect());
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

/// The command with a file's values as its defaults, so that they are checked like flags.
pub(super) fn as_defaults(
    mut command: Command,
    values: &BTreeMap<String, Vec<String>>,
) -> Result<Command, String> {
    let in_files = |it: &&Arg| !matches!(it.get_id().as_str(), "config" | "check");
    let is_list = |it: &Arg| matches!(it.get_action(), ArgAction::Append);
    let known = command.get_arguments().filter(in_files);
    let known: Vec<(String, bool)> =
        known.map(|it| (it.get_id().to_string(), is_list(it))).collect();
    for (name, values) in values {
        match known.iter().find(|it| it.0 == *name) {
            None => {
                let names: Vec<&str> = known.iter().map(|it| it.0.as_str()).collect();
                let names = names.join(", ");
                return Err(format!("{name} = {values:?}: unknown key; allowed are {names}"));
            }
            Some((_, false)) if values.len() != 1 => {
                return Err(format!("{name} = {values:?}: allowed is one value"));
            }
            Some(_) => {}
        }
        // Read once per process, because clap needs defaults with a static lifetime.
        let values = values.iter().map(|value| &*value.clone().leak());
        command = command.mut_arg(name.as_str(), |it| it.default_values(values));
    }
    Ok(command)
}
