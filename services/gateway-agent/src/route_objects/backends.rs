//! Finds the Envoy cluster for a Service reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attach::Route;
use super::grants::Grants;
use super::objects::{Reference, Service, ServicePort};
use super::policies::{Policies, Tls};
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
    pub(crate) tls: Option<Arc<Tls>>,
}

impl Target {
    pub(crate) fn cluster(&self) -> &str {
        &self.service.cluster
    }

    pub(crate) fn prototype(&self) -> String {
        let protocol = if self.protocol == Protocol::Http2 { "http2" } else { "http1" };
        let admin = if self.admin { "-admin" } else { "" };
        let tls = if self.tls.is_some() { "-tls" } else { "" };
        format!("{protocol}{admin}{tls}")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Backends<'a> {
    pub(crate) services: BTreeMap<(&'a str, &'a str), &'a Service>,
    pub(crate) grants: Grants<'a>,
    pub(crate) policies: Policies<'a>,
}

impl<'a> Backends<'a> {
    /// Returns the reference's Service if the route may use it.
    pub(crate) fn service(
        &self,
        route: &Route<'_>,
        to: &Reference,
    ) -> Result<&'a Service, Verdict> {
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
        let missing = |what: &str| no("BackendNotFound", format!("backendRef {name}: {what}"));
        match self.services.get(&(namespace, to.name.as_str())) {
            None => missing("there is no such Service"),
            Some(service) if service.spec.kind == "ExternalName" => {
                missing("a Service of type ExternalName has no endpoints")
            }
            Some(service) => Ok(service),
        }
    }

    /// Returns the reference's cluster, or the reason why it has no cluster. gRPC calls always use
    /// HTTP/2, whatever the Service specifies.
    pub(crate) fn target(
        &self,
        route: &Route<'_>,
        to: &Reference,
        grpc: bool,
    ) -> Result<Target, Verdict> {
        let service = self.service(route, to)?;
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let no = |reason, words: String| {
            let words = format!("backendRef {namespace}/{}: {words}", to.name);
            Err(Verdict::no(reason, &words))
        };
        let Some(port) = service.spec.ports.iter().find(|it| Some(it.port) == to.port) else {
            let words = format!("the Service has no port {}", to.port.unwrap_or_default());
            return no("BackendNotFound", words);
        };
        let policy = self.policies.of(service, port);
        let Some(protocol) = protocol(port, grpc, policy.is_some()) else {
            let words = format!("protocol or appProtocol of port {}", port.port);
            let words = format!("{words} is not HTTP/1.1, h2c or ws, and has no BackendTLSPolicy");
            return no("UnsupportedProtocol", words);
        };
        let tls = match policy.map(|it| it.tls.clone()).transpose() {
            Ok(tls) => tls,
            Err(words) => return no("InvalidBackendTLS", format!("BackendTLSPolicy {words}")),
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
        Ok(Target { service, protocol, admin, tls })
    }
}

/// A port that requires TLS needs a policy.
fn protocol(port: &ServicePort, grpc: bool, encrypted: bool) -> Option<Protocol> {
    if port.protocol.as_deref().is_some_and(|it| it != "TCP") {
        return None;
    }
    match port.app_protocol.as_deref().map(str::to_ascii_lowercase).as_deref() {
        Some("https" | "tls" | "kubernetes.io/wss") if !encrypted => None,
        Some("kubernetes.io/h2c") => Some(Protocol::Http2),
        _ if grpc => Some(Protocol::Http2),
        Some("kubernetes.io/ws" | "kubernetes.io/wss") => Some(Protocol::WebSocket),
        _ => Some(Protocol::Http1),
    }
}
