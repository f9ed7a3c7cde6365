//! The parts of an EndpointSlice that the agent keeps. It drops all other parts, including
//! metadata, at once.

use std::net::IpAddr;

use k8s_openapi::api::discovery::v1::{Endpoint as Described, EndpointPort, EndpointSlice};
use tracing::warn;

use crate::settings::{HEALTH, Port, Service};

impl Port {
    fn find(&self, ports: &[EndpointPort]) -> Option<u16> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Only => match ports {
                [port] => u16::try_from(port.port?).ok(),
                _ => None,
            },
            Self::Name(name) => {
                let named = |port: &&EndpointPort| port.name.as_deref() == Some(name);
                u16::try_from(ports.iter().find(named)?.port?).ok()
            }
        }
    }
}

impl Service {
    fn ports(&self, named: &[EndpointPort]) -> Option<(u16, u16)> {
        let traffic = self.port.find(named)?;
        let health = match &self.health_port {
            Some(port) => port.find(named)?,
            None => Port::Name(HEALTH.to_owned()).find(named).unwrap_or(traffic),
        };
        Some((traffic, health))
    }

    fn warn_of_missing(&self, named: &[EndpointPort]) {
        for wanted in [Some(&self.port), self.health_port.as_ref()].into_iter().flatten() {
            if let (Port::Name(port), None) = (wanted, wanted.find(named)) {
                let (cluster, service) = (&self.cluster, &self.name);
                warn!(
                    cluster,
                    service,
                    port,
                    "endpoints: the Service has no port of this name; its replicas are left out"
                );
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Not serving yet, or not ready.
    Unready,
    Ready,
    /// Terminating but still serving.
    Draining,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    pub(crate) health_port: u16,
    pub(crate) zone: Option<Box<str>>,
    pub(crate) state: State,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) left_out: usize,
}

impl Slice {
    /// A slice without one of the ports yields no endpoints, and logs a warning if it has
    /// addresses.
    pub(crate) fn of(slice: &EndpointSlice, service: &Service) -> Self {
        let named = slice.ports.as_deref().unwrap_or_default();
        if !slice.endpoints.is_empty() {
            service.warn_of_missing(named);
        }
        let found = service.ports(named);
        let read = |endpoint| found.and_then(|(port, health)| read(endpoint, port, health));
        let endpoints: Vec<_> = slice.endpoints.iter().filter_map(read).collect();
        let left_out = slice.endpoints.len() - endpoints.len();
        Self { endpoints, left_out }
    }
}

fn read(endpoint: &Described, port: u16, health_port: u16) -> Option<Endpoint> {
    Some(Endpoint {
        // All addresses of an endpoint belong to one pod (Kubernetes API, Endpoint v1). Host names
        // are ignored.
        address: endpoint.addresses.first()?.parse().ok()?,
        port,
        health_port,
        zone: endpoint.zone.as_deref().filter(|zone| !zone.is_empty()).map(Box::from),
        state: state(endpoint)?,
    })
}

/// `None` if the endpoint is terminating and no longer serving.
///
/// Kubernetes API defaults for missing conditions: ready, serving equal to ready, not terminating.
fn state(endpoint: &Described) -> Option<State> {
    let conditions = endpoint.conditions.as_ref();
    let ready = conditions.and_then(|it| it.ready).unwrap_or(true);
    let serving = conditions.and_then(|it| it.serving).unwrap_or(ready);
    // Terminating endpoints are checked first, because a Service with publishNotReadyAddresses
    // reports them as ready.
    match conditions.and_then(|it| it.terminating).unwrap_or(false) {
        true => serving.then_some(State::Draining),
        false if ready => Some(State::Ready),
        false => Some(State::Unready),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(port: &str, health_port: Option<Port>) -> Service {
        let (cluster, name) = ("pages".to_owned(), "web".to_owned());
        let port = Port::Name(port.to_owned());
        Service { cluster, namespace: None, name, port, health_port }
    }

    fn ports(port: &str) -> Service {
        service(port, Some(Port::Number(9)))
    }

    fn slice(conditions: serde_json::Value) -> EndpointSlice {
        let endpoint = json!({"addresses": ["10.0.0.1"], "conditions": conditions, "zone": "a"});
        let ports = json!([{"name": "http", "port": 80}]);
        let slice = json!({"addressType": "IPv4", "endpoints": [endpoint], "ports": ports});
        serde_json::from_value(slice).expect("a slice")
    }

    #[test]
    fn conditions_make_a_state() {
        for (conditions, wanted) in [
            (json!({}), Some(State::Ready)),
            (json!({"ready": true}), Some(State::Ready)),
            (json!({"ready": false}), Some(State::Unready)),
            (json!({"ready": false, "serving": true, "terminating": true}), Some(State::Draining)),
            (json!({"ready": true, "serving": true, "terminating": true}), Some(State::Draining)),
            (json!({"ready": false, "serving": false, "terminating": true}), None),
            (json!({"ready": false, "terminating": true}), None),
        ] {
            let read = Slice::of(&slice(conditions.clone()), &ports("http"));
            let states: Vec<_> = read.endpoints.iter().map(|it| it.state).collect();
            assert_eq!(states, Vec::from_iter(wanted), "{conditions}");
            assert_eq!(read.left_out, usize::from(wanted.is_none()), "{conditions}");
        }
    }

    #[test]
    fn ports_are_found_by_name_or_number() {
        let read = Slice::of(&slice(json!({})), &ports("http"));
        assert_eq!((read.endpoints[0].port, read.endpoints[0].health_port), (80, 9));
        let read = Slice::of(&slice(json!({})), &ports("none"));
        assert_eq!(read, Slice { endpoints: Vec::new(), left_out: 1 });
    }

    #[test]
    fn health_checks_go_to_the_port_admin_or_to_that_of_requests() {
        let mut slice = slice(json!({}));
        let health = |slice: &EndpointSlice, wanted: Option<Port>| {
            let read = Slice::of(slice, &service("http", wanted));
            read.endpoints.first().map(|it| it.health_port)
        };
        let admin = || Some(Port::Name("admin".to_owned()));
        assert_eq!((health(&slice, None), health(&slice, admin())), (Some(80), None));
        let named = json!([{"name": "http", "port": 80}, {"name": "admin", "port": 81}]);
        slice.ports = serde_json::from_value(named).expect("ports");
        assert_eq!((health(&slice, None), health(&slice, admin())), (Some(81), Some(81)));
    }

    #[test]
    fn names_are_no_addresses() {
        let mut slice = slice(json!({}));
        slice.endpoints[0].addresses = vec!["example.com".to_owned()];
        assert_eq!(Slice::of(&slice, &ports("http")).left_out, 1);
    }
}
