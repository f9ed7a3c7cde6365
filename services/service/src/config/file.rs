//! Converts values of a TOML file to the text that parsers read.

use std::io;

use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value};

use super::sources::{Reader, suggestion};
use super::{Key, Origin, Problem, unknown};

impl Reader<'_> {
    pub(super) fn add_file(&mut self, path: &str, text: io::Result<String>) {
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                let origin = Origin::File { path: path.to_owned(), line: 1 };
                let text = format!("configuration file {path}: {error}");
                return self.errors.push(Problem { origin, text });
            }
        };
        let file = File { path, text: &text };
        let (table, errors) = DeTable::parse_recoverable(&text);
        // Values recovered after a syntax error would cause false errors.
        if errors.is_empty() {
            return self.add_table(&file, "", table.get_ref());
        }
        for error in errors {
            let origin = file.line(error.span().map_or(0, |span| span.start));
            // Only the first error in a line counts, because it causes the others.
            if self.errors.last().is_some_and(|last| last.origin == origin) {
                continue;
            }
            // The line itself is hidden, because it may contain a secret.
            let text = format!("{origin}: {}", error.message());
            self.errors.push(Problem { origin, text });
        }
    }

    fn add_table(&mut self, file: &File<'_>, prefix: &str, table: &DeTable<'_>) {
        let keys = &self.program.keys;
        for (name, value) in table {
            let origin = file.line(name.span().start);
            let name = format!("{prefix}{}", name.get_ref());
            let key = keys.iter().find(|key| key.name == name);
            let is_table = keys.iter().any(|key| key.name.starts_with(&format!("{name}.")));
            let error = match (key, value.get_ref().as_table()) {
                (None, Some(inner)) if is_table => {
                    self.add_table(file, &format!("{name}."), inner);
                    continue;
                }
                // The values are hidden, because they may be secrets.
                (None, Some(_)) => {
                    let tables = keys.iter().filter_map(|key| key.name.rsplit_once('.'));
                    let tables: Vec<_> = tables.map(|(table, _)| table.to_owned()).collect();
                    format!("[{name}] ({origin}): unknown table; {}", suggestion(&name, &tables))
                }
                (None, None) => {
                    let table = keys.iter().filter(|key| key.name.starts_with(prefix));
                    let known: Vec<_> = table.map(|key| key.name.to_owned()).collect();
                    unknown(&name, &file.shown(value), &origin.to_string(), &known)
                }
                (Some(key), _) => {
                    let given = match self.settings.values.contains_key(key.name) {
                        true => Err("given twice".to_owned()),
                        false => read(value).and_then(|value| text(key, &value)),
                    };
                    match given {
                        Ok(text) => {
                            self.set(key, text, origin);
                            continue;
                        }
                        Err(error) => {
                            let shown = key.shown(&file.shown(value));
                            format!("{name} = {shown} ({origin}): {error}")
                        }
                    }
                }
            };
            self.errors.push(Problem { origin, text: error });
        }
    }
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn line(&self, offset: usize) -> Origin {
        let before = self.text.as_bytes().iter().take(offset);
        let line = before.filter(|&&byte| byte == b'\n').count() + 1;
        Origin::File { path: self.path.to_owned(), line }
    }

    /// A value as written, or text without its quotes.
    fn shown(&self, value: &Spanned<DeValue<'_>>) -> String {
        let written = || self.text.get(value.span()).unwrap_or_default();
        value.get_ref().as_str().unwrap_or_else(written).to_owned()
    }
}

/// Converts a value without its position. Numbers may be out of bounds.
fn read(value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
    let value = Value::deserialize(ValueDeserializer::from(value.clone()));
    value.map_err(|error| error.message().to_owned())
}

/// List items are separated by commas.
fn text(key: &Key, value: &Value) -> Result<String, String> {
    let Value::Array(values) = value else {
        return scalar(value).ok_or_else(|| "expected one value, not a table".to_owned());
    };
    if !key.is_list() {
        return Err("expected one value, not a list".to_owned());
    }
    let texts = values.iter().map(|value| scalar(value).filter(|text| !text.contains(',')));
    let texts: Option<Vec<_>> = texts.collect();
    texts.map(|texts| texts.join(",")).ok_or_else(|| "expected values without commas".to_owned())
}

/// `None` for lists and tables.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Array(_) | Value::Table(_) => None,
        Value::String(text) => Some(text.clone()),
        value => Some(value.to_string()),
    }
}
