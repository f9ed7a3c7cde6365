//! Finds the Envoy cluster for a Service reference.

use std::collections::BTreeMap;

use super::attach::Route;
use super::grants::Grants;
use super::objects::{Reference, Service, ServicePort};
use super::status::Verdict;
use crate::settings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// HTTP/1.1 with upgrades.
    WebSocket,
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) service: settings::Service,
    pub(crate) protocol: Protocol,
    pub(crate) admin: bool,
}

impl Target {
    pub(crate) fn cluster(&self) -> &str {
        &self.service.cluster
    }

    pub(crate) fn prototype(&self) -> &'static str {
        match (self.protocol, self.admin) {
            (Protocol::Http2, false) => "http2",
            (Protocol::Http2, true) => "http2-admin",
            (_, false) => "http1",
            (_, true) => "http1-admin",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Backends<'a> {
    pub(crate) services: BTreeMap<(&'a str, &'a str), &'a Service>,
    pub(crate) grants: Grants<'a>,
}

impl Backends<'_> {
    /// Returns the reference's cluster, or the reason why it has no cluster. gRPC calls always use
    /// HTTP/2, whatever the Service specifies.
    pub(crate) fn target(
        &self,
        route: &Route<'_>,
        to: &Reference,
        grpc: bool,
    ) -> Result<Target, Verdict> {
        let no = |reason, words: String| Err(Verdict::no(reason, &words));
        let (group, kind) =
            (to.group.as_deref().unwrap_or(""), to.kind.as_deref().unwrap_or("Service"));
        if (group, kind) != ("", "Service") {
            return no(
                "InvalidKind",
                format!("backendRef {}: kind {kind} is not Service", to.name),
            );
        }
        let namespace = to.namespace.as_deref().unwrap_or(route.namespace());
        let name = format!("{namespace}/{}", to.name);
        let from = (route.kind.name(), route.namespace());
        if !self.grants.permit(from, kind, (namespace, &to.name)) {
            let words = format!("backendRef {name}: no ReferenceGrant of its namespace permits it");
            return no("RefNotPermitted", words);
        }
        let missing = |what: String| no("BackendNotFound", format!("backendRef {name}: {what}"));
        let Some(service) = self.services.get(&(namespace, to.name.as_str())) else {
            return missing("there is no such Service".to_owned());
        };
        if service.spec.kind == "ExternalName" {
            return missing("a Service of type ExternalName has no endpoints".to_owned());
        }
        let Some(port) = service.spec.ports.iter().find(|it| Some(it.port) == to.port) else {
            return missing(format!("the Service has no port {}", to.port.unwrap_or_default()));
        };
        let Some(protocol) = protocol(port, grpc) else {
            let words = format!("backendRef {name}: protocol or appProtocol of port {}", port.port);
            return no("UnsupportedProtocol", format!("{words} is not HTTP/1.1, h2c or ws"));
        };
        let admin =
            service.spec.ports.iter().any(|it| it.name.as_deref() == Some(settings::HEALTH));
        let end = if protocol == Protocol::Http2 { "_http2" } else { "" };
        let service = settings::Service {
            // Kubernetes names contain no `_`, so cluster names are unique per Service port.
            cluster: format!("{namespace}_{}_{}{end}", to.name, port.port),
            namespace: Some(namespace.to_owned()),
            name: to.name.clone(),
            port: port.name.clone().map_or(settings::Port::Only, settings::Port::Name),
            health_port: None,
        };
        Ok(Target { service, protocol, admin })
    }
}

fn protocol(port: &ServicePort, grpc: bool) -> Option<Protocol> {
    if port.protocol.as_deref().is_some_and(|it| it != "TCP") {
        return None;
    }
    match port.app_protocol.as_deref() {
        Some("https" | "tls" | "kubernetes.io/wss") => None,
        Some("kubernetes.io/h2c") => Some(Protocol::Http2),
        _ if grpc => Some(Protocol::Http2),
        Some("kubernetes.io/ws") => Some(Protocol::WebSocket),
        _ => Some(Protocol::Http1),
    }
}
