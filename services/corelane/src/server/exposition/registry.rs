//! Metrics that the service itself registered.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// Prefix of the server's own families.
const RESERVED: &str = "corelane_";

/// Prefix of the first line of a family.
const HELP: &str = "# HELP ";

/// A registry of the service.
pub(crate) type Registered = Arc<Mutex<Registry>>;

fn read(registry: &Registered) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    text::encode_registry(&mut text, &registry).map(|()| text)
}

/// The name of the family that begins with this line.
fn family(line: &str) -> Option<&str> {
    line.strip_prefix(HELP)?.split(' ').next()
}

/// The first family whose name is reserved for the server.
pub(crate) fn reserved(registry: &Registered) -> Option<String> {
    let text = read(registry).ok()?;
    let mut names = text.lines().filter_map(family);
    names.find(|name| name.starts_with(RESERVED)).map(str::to_owned)
}

/// Appends the metrics of a registry. Metrics that were registered after the start under a reserved
/// name are omitted, because a scrape with two families of the same name is rejected as a whole.
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
