//! BackendTLSPolicies: whether the gateway connects to a Service with TLS, and how its replicas
//! must authenticate.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::objects::{GROUP, Policy, Reference, Service, ServicePort, Validation};
use super::secrets::{AUTHORITIES, Found, Name};
use super::status::{CONTROLLER, Verdict};
use crate::routes::Certificate;

/// A valid policy for the replicas of a Service.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// Name of the file with the CAs.
    pub(crate) file: Name,
    pub(crate) authorities: Arc<Certificate>,
    pub(crate) hostname: String,
    /// Envoy's matchers, one of which the certificate must satisfy.
    pub(crate) names: Value,
}

#[derive(Debug)]
pub(crate) struct Judged<'a> {
    pub(crate) object: &'a Policy,
    pub(crate) accepted: Verdict,
    pub(crate) resolved: Verdict,
    /// `Err` with the reason if no connection may succeed.
    pub(crate) tls: Result<Arc<Tls>, String>,
}

/// Policies by precedence: the oldest first, then by name.
#[derive(Debug, Default)]
pub(crate) struct Policies<'a>(pub(crate) Vec<Judged<'a>>);

impl<'a> Policies<'a> {
    pub(crate) fn new(mut all: Vec<&'a Policy>, found: &Found) -> Self {
        all.sort_by(|one, other| age(one, other));
        let mut taken = BTreeSet::new();
        let judged = all.into_iter().map(|object| {
            let mut conflicted = false;
            for it in &object.spec.target_refs {
                conflicted |= !taken.insert((namespace(object), &it.name, section(it)));
            }
            judge(object, found, conflicted)
        });
        Self(judged.collect())
    }

    /// The policy of a Service's port. A policy that names the port precedes one that does not.
    pub(crate) fn of(&self, service: &Service, port: &ServicePort) -> Option<&Judged<'a>> {
        let targets = |name| {
            move |it: &&Judged<'_>| {
                let own = |to: &&Reference| section(to) == name;
                it.object.spec.target_refs.iter().filter(own).any(|to| is(it.object, to, service))
            }
        };
        let named = port.name.as_deref().and_then(|it| self.0.iter().find(targets(Some(it))));
        named.or_else(|| self.0.iter().find(targets(None)))
    }
}

/// ConfigMaps with the policy's CAs.
pub(crate) fn wanted(policy: &Policy) -> impl Iterator<Item = Name> {
    let references = policy.spec.validation.ca_certificate_refs.iter();
    references.filter_map(|it| config_map(policy, it).ok())
}

pub(crate) fn targets(policy: &Policy, services: &[&Service]) -> bool {
    policy.spec.target_refs.iter().any(|to| services.iter().any(|it| is(policy, to, it)))
}

/// The policy's entry for this Gateway in its status.
pub(crate) fn ancestor(policy: &Judged<'_>, gateway: (&str, &str)) -> Value {
    let generation = policy.object.metadata.generation.unwrap_or_default();
    let conditions = [
        policy.accepted.condition("Accepted", generation),
        policy.resolved.condition("ResolvedRefs", generation),
    ];
    let to = json!({"group": GROUP, "kind": "Gateway", "namespace": gateway.0, "name": gateway.1});
    json!({"ancestorRef": to, "controllerName": CONTROLLER, "conditions": conditions})
}

fn judge<'a>(object: &'a Policy, found: &Found, conflicted: bool) -> Judged<'a> {
    let validation = &object.spec.validation;
    let (authorities, resolved) = authorities(object, found);
    let accepted = match (&authorities, conflicted) {
        (_, true) => {
            Verdict::no("Conflicted", "an older policy has the same target and sectionName")
        }
        (Err(verdict), false) => verdict.clone(),
        (Ok(_), false) => Verdict::yes("Accepted"),
    };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let tls = |authorities| {
        Arc::new(Tls {
            file: format!("policy/{}/{name}", namespace(object)),
            authorities,
            hostname: validation.hostname.clone(),
            names: names(validation),
        })
    };
    let tls = authorities.map(tls).map_err(|verdict| format!("{name}: {}", verdict.message));
    Judged { object, accepted, resolved, tls }
}

fn authorities(policy: &Policy, found: &Found) -> (Result<Arc<Certificate>, Verdict>, Verdict) {
    let mut resolved = Verdict::yes("ResolvedRefs");
    match policy.spec.validation.well_known_ca_certificates.as_deref() {
        None => {}
        Some("System") => return (Ok(Arc::new(Certificate::system())), resolved),
        Some(_) => {
            let words = "validation.wellKnownCACertificates: supported is System";
            return (Err(Verdict::no("Invalid", words)), resolved);
        }
    }
    let mut valid = Vec::new();
    for reference in &policy.spec.validation.ca_certificate_refs {
        let certificates = config_map(policy, reference).and_then(|name| {
            let missing = || Err("it was not read yet".to_owned());
            found.get(&name).cloned().unwrap_or_else(missing).map_err(|words| {
                let words = format!("validation.caCertificateRefs: {}: {words}", reference.name);
                Verdict::no("InvalidCACertificateRef", &words)
            })
        });
        match certificates {
            Ok(certificates) => valid.push(certificates),
            Err(verdict) => resolved = verdict,
        }
    }
    match valid.is_empty() {
        true => (Err(Verdict::no("NoValidCACertificate", &resolved.message)), resolved),
        false => (Ok(Arc::new(Certificate::joined(&valid))), resolved),
    }
}

fn config_map(policy: &Policy, reference: &Reference) -> Result<Name, Verdict> {
    let kind = reference.kind.as_deref().unwrap_or_default();
    match (reference.group.as_deref().unwrap_or_default(), kind) {
        ("", "ConfigMap") => Ok(format!("{AUTHORITIES}{}/{}", namespace(policy), reference.name)),
        _ => {
            let words = format!("{}: kind {kind} is not ConfigMap", reference.name);
            let words = format!("validation.caCertificateRefs: {words}");
            Err(Verdict::no("InvalidKind", &words))
        }
    }
}

/// Without `subjectAltNames`, the certificate must name the host.
fn names(of: &Validation) -> Value {
    let dns = |name: &str| match name.strip_prefix('*') {
        Some(rest) => json!({"san_type": "DNS", "matcher": {"suffix": rest}}),
        None => json!({"san_type": "DNS", "matcher": {"exact": name}}),
    };
    let named = of.subject_alt_names.iter().map(|it| match it.kind.as_str() {
        "URI" => json!({"san_type": "URI", "matcher": {"exact": it.uri}}),
        _ => dns(&it.hostname),
    });
    match of.subject_alt_names.is_empty() {
        true => json!([dns(&of.hostname)]),
        false => named.collect(),
    }
}

fn age(one: &Policy, other: &Policy) -> Ordering {
    let created = |it: &Policy| it.metadata.creation_timestamp.clone();
    let name = |it: &Policy| (it.metadata.namespace.clone(), it.metadata.name.clone());
    created(one).cmp(&created(other)).then_with(|| name(one).cmp(&name(other)))
}

fn namespace(policy: &Policy) -> &str {
    policy.metadata.namespace.as_deref().unwrap_or_default()
}

fn section(to: &Reference) -> Option<&str> {
    to.section_name.as_deref().filter(|it| !it.is_empty())
}

/// Whether a target is this Service. Policies apply only within their namespace.
fn is(policy: &Policy, to: &Reference, service: &Service) -> bool {
    let of = (to.group.as_deref().unwrap_or_default(), to.kind.as_deref().unwrap_or_default());
    of == ("", "Service")
        && policy.metadata.namespace == service.metadata.namespace
        && service.metadata.name.as_deref() == Some(&to.name)
}
