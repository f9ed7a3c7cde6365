//! Decides which environment variables are settings, and which have another source.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};

use super::{Origin, Problem, Program, unknown};

#[derive(Debug, Default)]
pub(super) struct Variables {
    pub(super) values: BTreeMap<String, String>,
    links: Vec<String>,
    pub(super) errors: Vec<Problem>,
}

impl Program {
    /// Sorts the environment. Empty variables count as unset, as in other programs, because
    /// manifests and Compose files cannot omit a variable.
    pub(super) fn variables(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Variables {
        let mut found = Variables::default();
        for (name, value) in environment {
            let Some(name) = name.into_string().ok().filter(|name| name.starts_with(self.prefix))
            else {
                continue;
            };
            if value.is_empty() || self.others.iter().any(|other| is_of(&name, other)) {
                continue;
            }
            match value.into_string() {
                // The name of a Service cannot affect a setting, because no setting accepts such a
                // URL.
                Ok(value) if is_link_url(&name, &value) => found.links.push(name),
                Ok(value) if self.is_known(&name) => drop(found.values.insert(name, value)),
                Ok(value) if is_service_link(&name, &value) => found.links.push(name),
                Ok(value) => {
                    let text = unknown(&name, &value, "environment", &self.known());
                    found.errors.push(Problem { origin: Origin::Environment(name), text });
                }
                Err(_) => {
                    let origin = Origin::Environment(name);
                    let text = format!("{origin}: its value is not UTF-8");
                    found.errors.push(Problem { origin, text });
                }
            }
        }
        found
    }

    fn is_known(&self, name: &str) -> bool {
        self.known().iter().any(|known| known == name)
    }

    fn known(&self) -> Vec<String> {
        let keys = self.keys.iter().map(|key| key.variable(self.prefix));
        keys.chain([self.file_variable()]).collect()
    }
}

impl Variables {
    pub(super) fn warning(&self) -> Option<String> {
        (!self.links.is_empty()).then(|| {
            let mut links = self.links.clone();
            links.sort();
            format!(
                "ignored {}: Kubernetes sets these variables for a Service of this name; \
                 `enableServiceLinks: false` in the pod's spec leaves them out",
                links.join(", ")
            )
        })
    }
}

/// Whether a variable has the name `other`, or starts with `other` if that is a prefix, which ends
/// in `_`.
fn is_of(name: &str, other: &str) -> bool {
    name == other || (other.ends_with('_') && name.starts_with(other))
}

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Whether Kubernetes sets this variable in every container, for a Service in the pod's namespace.
/// A Service called `corelane` leads to `CORELANE_PORT=tcp://10.0.0.1:80` and six more variables.
pub(crate) fn is_service_link(name: &str, value: &str) -> bool {
    let is_number = value.parse::<u16>().is_ok();
    if name.ends_with("_SERVICE_HOST") {
        return value.parse::<IpAddr>().is_ok();
    }
    if name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return is_number;
    }
    match port(name) {
        Some("PORT") => is_number,
        Some("PROTO") => PROTOCOLS.contains(&value),
        Some("ADDR") => value.parse::<IpAddr>().is_ok(),
        _ => is_link_url(name, value),
    }
}

/// Whether the variable is `NAME_PORT=tcp://ADDRESS:PORT`, or `NAME_PORT_80_TCP` with the same
/// value.
fn is_link_url(name: &str, value: &str) -> bool {
    let address = value.split_once("://").filter(|(scheme, _)| PROTOCOLS.contains(scheme));
    let is_url = address.is_some_and(|(_, address)| address.parse::<SocketAddr>().is_ok());
    is_url && (name.ends_with("_PORT") || port(name) == Some(""))
}

/// The suffix after `_PORT_80_TCP` in a name: nothing, `PROTO`, `PORT` or `ADDR`.
fn port(name: &str) -> Option<&str> {
    let (number, rest) = name.rsplit_once("_PORT_")?.1.split_once('_')?;
    let (protocol, rest) = rest.split_once('_').unwrap_or((rest, ""));
    let is_protocol = PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(protocol));
    (number.parse::<u16>().is_ok() && is_protocol).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_links_are_told_from_settings() {
        for (name, value) in [
            ("A_SERVICE_HOST", "10.0.0.1"),
            ("A_SERVICE_HOST", "fd00::1"),
            ("A_SERVICE_PORT", "80"),
            ("A_SERVICE_PORT_ADMIN_HTTP", "8081"),
            ("A_PORT", "tcp://10.0.0.1:80"),
            ("A_PORT", "udp://[fd00::1]:53"),
            ("A_B_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("A_PORT_80_TCP_PROTO", "tcp"),
            ("A_PORT_80_TCP_PORT", "80"),
            ("A_PORT_80_SCTP_ADDR", "10.0.0.1"),
        ] {
            assert!(is_service_link(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("A_SERVICE_HOST", "a.example"),
            ("A_SERVICE_PORT", "http"),
            ("A_PORT", "80"),
            ("A_PORT", "http://10.0.0.1:80"),
            ("A_PORT_80_TCP", "80"),
            ("A_PORT_80_TCP_COLOUR", "red"),
            ("A_PORT_HTTP_TCP_PORT", "80"),
            ("A_URL", "tcp://10.0.0.1:80"),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
