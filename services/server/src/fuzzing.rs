//! Entry points for the fuzz targets in `services/fuzz`.

use std::ffi::OsString;

use crate::app::service;
use crate::handlers::{div, work};
use crate::projects;

#[derive(Debug)]
pub struct Accepted {
    pub shown: String,
    pub values: String,
}

/// Parses a configuration; `None` for help or the version. `file` is the content of any file named
/// on the command line.
///
/// # Errors
///
/// Returns the operator's error messages.
pub fn configuration<'a>(
    file: &str,
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Accepted>, String> {
    let environment =
        environment.into_iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    let arguments = arguments.into_iter().map(OsString::from);
    let accepted = service().accepted(arguments, environment, |_path| Ok(file.to_owned()));
    let accepted = accepted.map_err(|errors| errors.to_string())?;
    Ok(accepted.map(|(shown, values)| Accepted { shown, values }))
}

pub fn half(n: &str) -> Option<String> {
    div::half(n)
}

pub fn ops(query: &str, most: u64) -> Option<u64> {
    work::ops(query, most)
}

/// The text to store, if this is a valid document.
pub fn document(text: &[u8]) -> Option<Vec<u8>> {
    projects::fuzzing::document(text)
}

pub fn say_the_same(one: &[u8], other: &[u8]) -> bool {
    projects::fuzzing::say_the_same(one, other)
}

/// Whether If-Match and If-None-Match allow reading and changing a project of this version; `None`
/// if either is malformed.
pub fn conditions(if_match: &[u8], if_none_match: &[u8], version: i64) -> Option<(bool, bool)> {
    projects::fuzzing::conditions(if_match, if_none_match, version)
}
