//! Metrics that the service registered.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

const RESERVED: &str = "corelane_";

/// Metrics of `corelane-client`, which a service registers like its own.
const OF_CALLS: &str = "corelane_client_";

const HELP: &str = "# HELP ";

pub(crate) type Registered = Arc<Mutex<Registry>>;

fn read(registry: &Registered) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let registry = registry.lock().unwrap_or_else(PoisonError::into_inner);
    text::encode_registry(&mut text, &registry).map(|()| text)
}

fn family(line: &str) -> Option<&str> {
    line.strip_prefix(HELP)?.split(' ').next()
}

fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED) && !name.starts_with(OF_CALLS)
}

/// The first family with a name reserved for the server.
pub(crate) fn reserved(registry: &Registered) -> Option<String> {
    let text = read(registry).ok()?;
    let mut names = text.lines().filter_map(family);
    names.find(|name| is_reserved(name)).map(str::to_owned)
}

/// Appends a registry's metrics. Omits reserved names registered after startup, because Prometheus
/// rejects an entire scrape that contains two families with the same name.
pub(super) fn append(out: &mut String, registry: &Registered) -> fmt::Result {
    let text = read(registry)?;
    let mut is_ours = false;
    for line in text.lines() {
        if let Some(name) = family(line) {
            is_ours = is_reserved(name);
        }
        if !is_ours {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
