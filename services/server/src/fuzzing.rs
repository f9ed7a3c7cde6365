//! Doors to what reads text from outside, for the fuzz targets in `services/fuzz`.

use std::ffi::OsString;

use crate::config::{self, Config, Invocation};
use crate::handlers::{div, work};

/// A configuration that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// What `--check` prints.
    pub shown: String,
    /// Every value, as it is in force.
    pub values: String,
}

/// Reads a configuration; `None` when help or the version was asked for. Whichever file the
/// command line names, its text is `file`.
///
/// # Errors
///
/// What an operator would be told.
pub fn configuration<'a>(
    file: &str,
    environment: impl IntoIterator<Item = (&'a str, &'a str)>,
    arguments: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Accepted>, String> {
    let environment =
        environment.into_iter().map(|(name, text)| (OsString::from(name), OsString::from(text)));
    let arguments = arguments.into_iter().map(OsString::from);
    let invocation = config::read_with(arguments, environment, |_path| Ok(file.to_owned()));
    let settings = match invocation.map_err(|errors| errors.to_string())? {
        Invocation::Print(_) => return Ok(None),
        Invocation::Check(settings) | Invocation::Run(settings) => settings,
    };
    let config = Config::parse(&settings).map_err(|errors| errors.to_string())?;
    Ok(Some(Accepted { shown: config::describe(&settings), values: format!("{config:?}") }))
}

/// The half of `/div/{n}`.
pub fn half(n: &str) -> Option<String> {
    div::half(n)
}

/// The iterations that the query of `/work` asks for.
pub fn ops(query: &str, most: u64) -> Option<u64> {
    work::ops(query, most)
}
