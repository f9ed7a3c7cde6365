//! Object fields that the agent reads. Enumerations are strings and keep unknown values, so that
//! one unusable object does not hide the other objects.

use std::collections::BTreeMap;

use kube::core::Object;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

pub(crate) const GROUP: &str = "gateway.networking.k8s.io";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Http,
    Grpc,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Http, Self::Grpc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTPRoute",
            Self::Grpc => "GRPCRoute",
        }
    }
}

pub(crate) type GatewayClass = Object<ClassSpec, Value>;
pub(crate) type Gateway = Object<GatewaySpec, Value>;
pub(crate) type ReferenceGrant = Object<GrantSpec, IgnoredAny>;
pub(crate) type Policy = Object<PolicySpec, Value>;
pub(crate) type Service = Object<ServiceSpec, ServiceStatus>;
pub(crate) type Namespace = Object<IgnoredAny, IgnoredAny>;
pub(crate) type RouteObject = Object<RouteSpec, Value>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClassSpec {
    pub(crate) controller_name: String,
    pub(crate) parameters_ref: Option<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GatewaySpec {
    pub(crate) gateway_class_name: String,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) addresses: Vec<Value>,
    pub(crate) infrastructure: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) hostname: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: String,
    pub(crate) tls: Tls,
    pub(crate) allowed_routes: AllowedRoutes,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Tls {
    pub(crate) mode: Option<String>,
    pub(crate) certificate_refs: Vec<Reference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AllowedRoutes {
    pub(crate) namespaces: AllowedNamespaces,
    pub(crate) kinds: Vec<Reference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AllowedNamespaces {
    pub(crate) from: Option<String>,
    pub(crate) selector: Selector,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Selector {
    pub(crate) match_labels: BTreeMap<String, String>,
    pub(crate) match_expressions: Vec<Expression>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Expression {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Reference {
    pub(crate) group: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) section_name: Option<String>,
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GrantSpec {
    pub(crate) from: Vec<Grantee>,
    pub(crate) to: Vec<Grantee>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Grantee {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PolicySpec {
    pub(crate) target_refs: Vec<Reference>,
    pub(crate) validation: Validation,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Validation {
    pub(crate) ca_certificate_refs: Vec<Reference>,
    #[serde(rename = "wellKnownCACertificates")]
    pub(crate) well_known_ca_certificates: Option<String>,
    pub(crate) hostname: String,
    pub(crate) subject_alt_names: Vec<SubjectAltName>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SubjectAltName {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) hostname: String,
    pub(crate) uri: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(rename = "clusterIP")]
    pub(crate) cluster_ip: Option<String>,
    pub(crate) ports: Vec<ServicePort>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServicePort {
    pub(crate) name: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: Option<String>,
    pub(crate) app_protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ServiceStatus {
    pub(crate) load_balancer: LoadBalancer,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadBalancer {
    pub(crate) ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ingress {
    pub(crate) ip: Option<String>,
    pub(crate) hostname: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RouteSpec {
    /// Unparsed, because the status repeats the parentRefs.
    pub(crate) parent_refs: Vec<Value>,
    pub(crate) hostnames: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

impl RouteSpec {
    /// References to backends and mirrors.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.rules.iter().flat_map(|rule| {
            let mirrors = rule.filters.iter().filter(|it| it.kind == "RequestMirror");
            let mirrors = mirrors.map(|it| &it.request_mirror.backend_ref);
            rule.backend_refs.iter().map(|it| &it.reference).chain(mirrors)
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    pub(crate) name: Option<String>,
    pub(crate) matches: Vec<Match>,
    pub(crate) filters: Vec<Filter>,
    pub(crate) backend_refs: Vec<Backend>,
    pub(crate) timeouts: Timeouts,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Match {
    pub(crate) path: Option<Typed>,
    pub(crate) headers: Vec<Typed>,
    pub(crate) query_params: Vec<Typed>,
    pub(crate) method: Option<Method>,
    #[serde(flatten)]
    pub(crate) unknown: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Typed {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) name: String,
    pub(crate) value: String,
}

/// A match's method: a word in an HTTPRoute, a service and method in a GRPCRoute.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Method {
    Http(String),
    Grpc(GrpcMethod),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GrpcMethod {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) service: String,
    pub(crate) method: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Filter {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) request_header_modifier: Headers,
    pub(crate) response_header_modifier: Headers,
    pub(crate) request_redirect: Redirect,
    pub(crate) url_rewrite: Rewrite,
    pub(crate) request_mirror: Mirror,
    pub(crate) cors: Cors,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Cors {
    pub(crate) allow_origins: Vec<String>,
    pub(crate) allow_credentials: bool,
    pub(crate) allow_methods: Vec<String>,
    pub(crate) allow_headers: Vec<String>,
    pub(crate) expose_headers: Vec<String>,
    pub(crate) max_age: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Headers {
    pub(crate) set: Vec<Typed>,
    pub(crate) add: Vec<Typed>,
    pub(crate) remove: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Redirect {
    pub(crate) scheme: Option<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) path: Option<NewPath>,
    pub(crate) port: Option<u16>,
    pub(crate) status_code: Option<u16>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Rewrite {
    pub(crate) hostname: Option<String>,
    pub(crate) path: Option<NewPath>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NewPath {
    pub(crate) replace_full_path: Option<String>,
    pub(crate) replace_prefix_match: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Mirror {
    pub(crate) backend_ref: Reference,
    pub(crate) percent: Option<u64>,
    pub(crate) fraction: Option<Fraction>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Fraction {
    pub(crate) numerator: u64,
    pub(crate) denominator: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Backend {
    #[serde(flatten)]
    pub(crate) reference: Reference,
    pub(crate) weight: Option<u32>,
    pub(crate) filters: Vec<Filter>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Timeouts {
    pub(crate) request: Option<String>,
    pub(crate) backend_request: Option<String>,
}
