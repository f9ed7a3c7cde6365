//! Derives Envoy's configuration and the status of the objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::attach::{Attachment, Route, Taken, attach};
use super::backends::Backends;
use super::certificates::{Chain, References, Source};
use super::grants::Grants;
use super::hosts::{Hosts, Place, hosts};
use super::listeners::{Pods, Served, served};
use super::objects::{
    Gateway, GatewayClass, Kind, Namespace, Policy, Reference, ReferenceGrant, Service,
};
use super::policies::{self, Judged, Policies};
use super::prototypes::Prototypes;
use super::rules::{Rules, rules};
use super::secrets::{Found, Name};
use super::status::{ANCESTORS, CONTROLLER, PARENTS, Verdict, entries};
use crate::routes::Certificates;

#[derive(Debug, Default)]
pub(crate) struct World<'a> {
    pub(crate) gateway: (&'a str, &'a str),
    pub(crate) service: &'a str,
    pub(crate) pods: Pods,
    pub(crate) classes: Vec<&'a GatewayClass>,
    pub(crate) gateways: Vec<&'a Gateway>,
    pub(crate) routes: Vec<Route<'a>>,
    pub(crate) grants: Vec<&'a ReferenceGrant>,
    pub(crate) policies: Vec<&'a Policy>,
    pub(crate) services: Vec<&'a Service>,
    pub(crate) namespaces: Vec<&'a Namespace>,
    pub(crate) secrets: Found,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contribution {
    pub(crate) hosts: Hosts,
    pub(crate) clusters: BTreeMap<String, Value>,
    pub(crate) chains: Vec<Chain>,
    /// CAs that the clusters trust.
    pub(crate) authorities: Certificates,
}

impl Contribution {
    pub(crate) fn uses(&self, name: &str) -> bool {
        let of = |it: &Source| matches!(it, Source::Secret(own) if own == name);
        self.chains.iter().flat_map(|it| &it.certificates).any(of)
    }
}

/// An object's status, without the times of conditions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Status {
    pub(crate) of: Of,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) known: Value,
    pub(crate) wanted: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Class,
    Gateway,
    Policy,
    Route(Kind),
}

struct Outcome<'a> {
    route: Route<'a>,
    attachments: Vec<Attachment>,
    rules: [Rules; 2],
}

impl<'a> World<'a> {
    fn own(&self) -> Option<&Gateway> {
        let named = |it: &&&Gateway| {
            let metadata = &it.metadata;
            (metadata.namespace.as_deref(), metadata.name.as_deref())
                == (Some(self.gateway.0), Some(self.gateway.1))
        };
        let gateway = self.gateways.iter().find(named)?;
        let ours = |it: &&&GatewayClass| {
            it.metadata.name.as_deref() == Some(&gateway.spec.gateway_class_name)
                && it.spec.controller_name == CONTROLLER
        };
        self.classes.iter().any(|it| ours(&it)).then_some(gateway)
    }

    pub(crate) fn is_served(&self) -> bool {
        self.own().is_some()
    }

    pub(crate) fn wanted_secrets(&self) -> BTreeSet<Name> {
        let Some(gateway) = self.own() else { return BTreeSet::new() };
        let mut wanted = self.references().wanted(&gateway.spec.listeners);
        wanted.extend(self.used_policies(&self.backends()).into_iter().flat_map(policies::wanted));
        wanted
    }

    /// Policies for Services that the Gateway's routes use.
    fn used_policies(&self, backends: &Backends<'a>) -> Vec<&'a Policy> {
        let routes = self.routes.iter().filter(|it| it.is_for(self.gateway));
        let used = routes.flat_map(|route| {
            route.object.spec.references().filter_map(|to| backends.service(route, to).ok())
        });
        let used: Vec<_> = used.collect();
        self.policies.iter().filter(|it| policies::targets(it, &used)).copied().collect()
    }

    fn references(&self) -> References<'_> {
        let grants = Grants(self.grants.clone());
        References { namespace: self.gateway.0, mounted: self.pods.secret.as_deref(), grants }
    }

    /// Returns the objects' part of Envoy's configuration, and the status of each object. Without a
    /// Gateway of this controller, only GatewayClasses get a status.
    pub(crate) fn translate(&self, prototypes: &Prototypes) -> (Contribution, Vec<Status>) {
        let ours = |it: &&&GatewayClass| it.spec.controller_name == CONTROLLER;
        let mut statuses: Vec<_> =
            self.classes.iter().filter(ours).map(|it| class_status(it)).collect();
        let Some(gateway) = self.own() else { return (Contribution::default(), statuses) };
        let listeners =
            served(&gateway.spec.listeners, &self.pods, &self.references(), &self.secrets);
        let mut backends = self.backends();
        backends.policies = Policies::new(self.used_policies(&backends), &self.secrets);
        let outcomes = self.outcomes(&listeners, &backends, prototypes);
        statuses.push(self.gateway_status(gateway, &listeners, &outcomes));
        statuses.extend(outcomes.iter().map(|it| self.route_status(it)));
        statuses.extend(self.policy_statuses(&backends.policies.0));
        (contribution(&listeners, &outcomes, prototypes), statuses)
    }

    fn backends(&self) -> Backends<'a> {
        let services = self.services.iter().filter_map(|it| {
            Some(((it.metadata.namespace.as_deref()?, it.metadata.name.as_deref()?), *it))
        });
        let grants = Grants(self.grants.clone());
        Backends { services: services.collect(), grants, policies: Policies::default() }
    }

    fn outcomes(
        &self,
        listeners: &[Served<'_>],
        backends: &Backends<'_>,
        prototypes: &Prototypes,
    ) -> Vec<Outcome<'a>> {
        let none = BTreeMap::new();
        let labels = |namespace: &str| {
            let found =
                self.namespaces.iter().find(|it| it.metadata.name.as_deref() == Some(namespace));
            found.and_then(|it| it.metadata.labels.as_ref()).unwrap_or(&none)
        };
        let mut routes = self.routes.clone();
        routes.sort_by(Route::age);
        let mut taken = Taken::new();
        let outcome = |route: Route<'a>| {
            let own = |tls: bool| if tls { self.pods.https } else { self.pods.http };
            let rules = [false, true].map(|tls| {
                rules(&route, backends, prototypes, (tls, own(tls).unwrap_or_default()))
            });
            let mut attachments =
                attach(&route, self.gateway, listeners, labels(route.namespace()), &mut taken);
            if let Err(verdict) = &rules[0].entries {
                for attachment in attachments.iter_mut().filter(|it| it.accepted.status) {
                    attachment.accepted = verdict.clone();
                    attachment.places.clear();
                }
            }
            Outcome { route, attachments, rules }
        };
        let outcomes = routes.into_iter().map(outcome);
        outcomes.filter(|it| !it.attachments.is_empty() || self.said_before(&it.route)).collect()
    }

    fn said_before(&self, route: &Route<'_>) -> bool {
        let status = route.object.status.as_ref().unwrap_or(&Value::Null);
        status["parents"].as_array().into_iter().flatten().any(|it| self.is_own(route, it))
    }

    fn is_own(&self, route: &Route<'_>, parent: &Value) -> bool {
        let to: Reference = serde_json::from_value(parent["parentRef"].clone()).unwrap_or_default();
        parent["controllerName"] == CONTROLLER && route.refers(&to, self.gateway)
    }

    fn route_status(&self, outcome: &Outcome<'_>) -> Status {
        let generation = outcome.route.object.metadata.generation.unwrap_or_default();
        let parent = |it: &Attachment| {
            let conditions = [
                it.accepted.condition("Accepted", generation),
                outcome.rules[0].resolved.condition("ResolvedRefs", generation),
            ];
            json!({"parentRef": it.parent, "controllerName": CONTROLLER, "conditions": conditions})
        };
        let wanted: Vec<_> = outcome.attachments.iter().map(parent).collect();
        let known = outcome.route.object.status.clone().unwrap_or_default();
        let wanted = entries(&PARENTS, &known, |it| self.is_own(&outcome.route, it), &wanted);
        status(Of::Route(outcome.route.kind), outcome.route.object, known, wanted)
    }

    /// Entries of policies that the Gateway's routes no longer use are removed.
    fn policy_statuses(&self, used: &[Judged<'_>]) -> Vec<Status> {
        let own = |entry: &Value| {
            let to = &entry["ancestorRef"];
            entry["controllerName"] == CONTROLLER
                && (&to["namespace"], &to["name"])
                    == (&json!(self.gateway.0), &json!(self.gateway.1))
        };
        let write = |object: &Policy, entry: &[Value]| {
            let known = object.status.clone().unwrap_or_default();
            let wanted = entries(&ANCESTORS, &known, own, entry);
            status(Of::Policy, object, known, wanted)
        };
        let unused = self.policies.iter().filter(|object| {
            let ancestors = object.status.as_ref().and_then(|it| it["ancestors"].as_array());
            ancestors.into_iter().flatten().any(own)
                && !used.iter().any(|it| std::ptr::eq(it.object, **object))
        });
        let used = used.iter().map(|it| write(it.object, &[policies::ancestor(it, self.gateway)]));
        used.chain(unused.map(|it| write(it, &[]))).collect()
    }

    fn gateway_status(
        &self,
        gateway: &Gateway,
        listeners: &[Served<'_>],
        outcomes: &[Outcome<'_>],
    ) -> Status {
        let generation = gateway.metadata.generation.unwrap_or_default();
        let addresses = self.addresses();
        let accepted = if gateway.spec.infrastructure.contains_key("parametersRef") {
            Verdict::no(
                "InvalidParameters",
                "infrastructure.parametersRef: the chart's values set all",
            )
        } else if !gateway.spec.addresses.is_empty() {
            Verdict::no(
                "UnsupportedAddress",
                "spec.addresses: the gateway's Service has its addresses",
            )
        } else if listeners.iter().any(|it| !it.accepted.status || !it.resolved.status) {
            let usable = listeners.iter().any(Served::programmed);
            let words = "see the conditions of the listeners";
            Verdict { status: usable, ..Verdict::no("ListenersNotValid", words) }
        } else {
            Verdict::yes("Accepted")
        };
        let programmed = match (accepted.status, addresses.is_empty()) {
            (false, _) => Verdict::no("Invalid", "the Gateway is not accepted"),
            (true, true) => {
                let words = format!("the Service {} has no address", self.service);
                Verdict::no("AddressNotAssigned", &words)
            }
            (true, false) => Verdict::yes("Programmed"),
        };
        let attached = |number| {
            let at =
                |it: &&Outcome<'_>| it.attachments.iter().any(|it| it.places.contains_key(&number));
            outcomes.iter().filter(at).count()
        };
        let of = |(number, it): (usize, &Served<'_>)| it.status(attached(number), generation);
        let wanted = json!({
            "addresses": addresses,
            "listeners": listeners.iter().enumerate().map(of).collect::<Vec<_>>(),
            "conditions": [
                accepted.condition("Accepted", generation),
                programmed.condition("Programmed", generation),
            ],
        });
        status(Of::Gateway, gateway, gateway.status.clone().unwrap_or_default(), wanted)
    }

    /// Addresses of the Service's load balancer, or the cluster address if there are none.
    fn addresses(&self) -> Vec<Value> {
        let named = |it: &&&Service| {
            let metadata = &it.metadata;
            (metadata.namespace.as_deref(), metadata.name.as_deref())
                == (Some(self.gateway.0), Some(self.service))
        };
        let Some(service) = self.services.iter().find(named) else { return Vec::new() };
        let balancers = service.status.iter().flat_map(|it| &it.load_balancer.ingress);
        let found: Vec<_> = balancers
            .filter_map(|it| match (&it.ip, &it.hostname) {
                (Some(ip), _) => Some(json!({"type": "IPAddress", "value": ip})),
                (None, Some(name)) => Some(json!({"type": "Hostname", "value": name})),
                (None, None) => None,
            })
            .collect();
        let own = service.spec.cluster_ip.as_deref().filter(|it| !it.is_empty() && *it != "None");
        match (found.is_empty(), own) {
            (true, Some(ip)) => vec![json!({"type": "IPAddress", "value": ip})],
            _ => found,
        }
    }
}

fn class_status(class: &GatewayClass) -> Status {
    let generation = class.metadata.generation.unwrap_or_default();
    let accepted = match class.spec.parameters_ref {
        Some(_) => Verdict::no("InvalidParameters", "parametersRef: the chart's values set all"),
        None => Verdict::yes("Accepted"),
    };
    let features: Vec<_> = FEATURES.iter().map(|name| json!({"name": name})).collect();
    let wanted = json!({
        "conditions": [accepted.condition("Accepted", generation)],
        "supportedFeatures": features,
    });
    status(Of::Class, class, class.status.clone().unwrap_or_default(), wanted)
}

/// Features that the class declares, sorted alphabetically as the API requires.
const FEATURES: [&str; 30] = [
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayHTTPListenerIsolation",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
];

fn status<S: Clone, T: Clone>(
    of: Of,
    object: &kube::core::Object<S, T>,
    known: Value,
    wanted: Value,
) -> Status {
    let metadata = &object.metadata;
    Status {
        of,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        known,
        wanted,
    }
}

fn contribution(
    listeners: &[Served<'_>],
    outcomes: &[Outcome<'_>],
    prototypes: &Prototypes,
) -> Contribution {
    let mut places = Vec::new();
    let mut clusters = BTreeMap::new();
    for Outcome { attachments, rules, .. } in outcomes {
        // Two parentRefs may name the same listener.
        let at = attachments.iter().flat_map(|it| &it.places);
        let at = at.filter(|(at, _)| listeners[**at].programmed());
        let own: BTreeSet<_> =
            at.flat_map(|(at, names)| names.iter().map(|it| (*at, it))).collect();
        for (listener, host) in own {
            let rules = &rules[usize::from(listeners[listener].tls())];
            let entries = rules.entries.as_deref().unwrap_or_default();
            places.push(Place { listener, host: host.clone(), entries });
            clusters.extend(rules.targets.iter().map(|it| (it.cluster().to_owned(), it)));
        }
    }
    let authorities = clusters.values().filter_map(|it| it.tls.as_ref());
    let authorities =
        authorities.map(|tls| (tls.file.clone(), Arc::clone(&tls.authorities))).collect();
    let clusters = clusters.into_iter().map(|(name, it)| (name, prototypes.cluster(it))).collect();
    let of_tls = listeners.iter().filter(|it| it.tls() && it.programmed());
    let chains = of_tls.map(|it| Chain {
        hostname: it.listener.hostname.clone().filter(|it| !it.is_empty()),
        certificates: it.certificates.clone(),
    });
    let hosts = hosts(listeners, &places);
    Contribution { hosts, clusters, chains: chains.collect(), authorities }
}
