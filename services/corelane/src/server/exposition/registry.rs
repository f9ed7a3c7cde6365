//! Metrics that the service registered itself.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Begins the names of the server's own families.
const RESERVED: &str = "corelane_";

/// Begins the lines of a family.
const HELP: &str = "# HELP ";

/// A registry of the service.
pub(crate) type Registered = Arc<Mutex<Registry>>;

fn read(registry: &Registered) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    text::encode_registry(&mut text, &registry).map(|()| text)
}

/// The name that a line begins a family with.
fn family(line: &str) -> Option<&str> {
    line.strip_prefix(HELP)?.split(' ').next()
}

/// The first family whose name is the server's.
pub(crate) fn reserved(registry: &Registered) -> Option<String> {
    let text = read(registry).ok()?;
    let mut names = text.lines().filter_map(family);
    names.find(|name| name.starts_with(RESERVED)).map(str::to_owned)
}

/// Appends the metrics of a registry. Those that have got a name of the server's since the start are
/// left out, because a scrape with two families of one name is rejected as a whole.
pub(super) fn append(out: &mut String, registry: &Registered) -> fmt::Result {
    let text = read(registry)?;
    let mut is_ours = false;
    for line in text.lines() {
        if let Some(name) = family(line) {
            is_ours = name.starts_with(RESERVED);
        }
        if !is_ours {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
