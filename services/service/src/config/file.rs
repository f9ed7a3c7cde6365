//! Values of a TOML file as the text that parsers read.

use std::io;

use toml::Value;

use super::sources::Reader;
use super::{Key, Origin, unknown};

impl Reader<'_> {
    pub(super) fn add_file(&mut self, path: &str, text: io::Result<String>) {
        let table = match &text {
            Ok(text) => text.parse::<toml::Table>().map_err(|error| wrong(text, &error)),
            Err(error) => Err(error.to_string()),
        };
        match table {
            Ok(table) => self.add_table(path, "", &table),
            Err(error) => self.errors.push(format!("configuration file {path}: {error}")),
        }
    }

    fn add_table(&mut self, path: &str, prefix: &str, table: &toml::Table) {
        let keys = &self.program.keys;
        for (name, value) in table {
            let name = format!("{prefix}{name}");
            let key = keys.iter().find(|key| key.name == name);
            let is_table = keys.iter().any(|key| key.name.starts_with(&format!("{name}.")));
            let shown = || scalar(value).unwrap_or_else(|| value.to_string());
            match (key, value) {
                (None, Value::Table(inner)) if is_table => {
                    self.add_table(path, &format!("{name}."), inner);
                }
                (Some(key), _) => {
                    let given = if self.settings.values.contains_key(key.name) {
                        Err("given twice".to_owned())
                    } else {
                        text(key, value)
                    };
                    match given {
                        Ok(text) => self.set(key, text, Origin::File(path.to_owned())),
                        Err(error) => {
                            let shown = key.shown(&shown());
                            self.errors.push(format!("{name} = {shown} (file {path}): {error}"));
                        }
                    }
                }
                (None, _) => {
                    let table = keys.iter().filter(|key| key.name.starts_with(prefix));
                    let known = table.map(|key| key.name.to_owned()).collect();
                    self.errors.push(unknown(&name, &shown(), &format!("file {path}"), known));
                }
            }
        }
    }
}

/// What is wrong with a file, and where. The line itself is not shown, because it may hold a secret.
fn wrong(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().and_then(|span| text.get(..span.start));
    let line = start.map(|before| format!("line {}: ", before.matches('\n').count() + 1));
    format!("{}{}", line.unwrap_or_default(), error.message())
}

/// The text of a key's value. A list is separated by commas.
fn text(key: &Key, value: &Value) -> Result<String, String> {
    let Value::Array(values) = value else {
        return scalar(value).ok_or_else(|| "allowed is one value, not a table".to_owned());
    };
    if !key.is_list() {
        return Err("allowed is one value, not a list".to_owned());
    }
    let texts = values.iter().map(|value| scalar(value).filter(|text| !text.contains(',')));
    let texts: Option<Vec<_>> = texts.collect();
    texts.map(|texts| texts.join(",")).ok_or_else(|| "allowed are values without commas".to_owned())
}

/// The text of a value that is not a list or table.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Array(_) | Value::Table(_) => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}
