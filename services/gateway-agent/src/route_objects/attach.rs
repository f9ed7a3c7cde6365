//! Decides which routes attach to which Gateway listeners.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::Value;

use super::hostnames::{covers, intersection};
use super::listeners::Served;
use super::objects::{
    AllowedNamespaces, Expression, GROUP, Kind, Reference, RouteObject, Selector,
};
use super::status::Verdict;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Route<'a> {
    pub(crate) kind: Kind,
    pub(crate) object: &'a RouteObject,
}

impl<'a> Route<'a> {
    pub(crate) fn namespace(&self) -> &'a str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.namespace(), self.object.metadata.name.as_deref().unwrap_or_default())
    }

    /// Tie-breaker between routes: the oldest first, then by name.
    pub(crate) fn age(&self, other: &Self) -> Ordering {
        let created = |it: &Self| it.object.metadata.creation_timestamp.clone();
        created(self).cmp(&created(other)).then_with(|| self.name().cmp(&other.name()))
    }

    /// Whether any parentRef names the Gateway.
    pub(crate) fn is_for(&self, gateway: (&str, &str)) -> bool {
        let reference = |it: &Value| serde_json::from_value(it.clone()).unwrap_or_default();
        self.object.spec.parent_refs.iter().any(|it| self.refers(&reference(it), gateway))
    }

    pub(crate) fn refers(&self, parent: &Reference, gateway: (&str, &str)) -> bool {
        parent.group.as_deref().unwrap_or(GROUP) == GROUP
            && parent.kind.as_deref().unwrap_or("Gateway") == "Gateway"
            && parent.namespace.as_deref().unwrap_or(self.namespace()) == gateway.0
            && parent.name == gateway.1
    }
}

/// A route's parentRef to this Gateway, and whether it attached.
#[derive(Clone, Debug)]
pub(crate) struct Attachment {
    pub(crate) parent: Value,
    pub(crate) accepted: Verdict,
    /// Hosts of the route on each listener, by listener number.
    pub(crate) places: BTreeMap<usize, Vec<String>>,
}

/// Attached routes by listener. An HTTPRoute and a GRPCRoute must not share a host.
pub(crate) type Taken = BTreeMap<usize, Vec<(Kind, String)>>;

/// Attaches a route through each parentRef to this Gateway. Older routes go first.
pub(crate) fn attach(
    route: &Route<'_>,
    gateway: (&str, &str),
    listeners: &[Served<'_>],
    labels: &BTreeMap<String, String>,
    taken: &mut Taken,
) -> Vec<Attachment> {
    let mut found = Vec::new();
    for value in &route.object.spec.parent_refs {
        let parent: Reference = serde_json::from_value(value.clone()).unwrap_or_default();
        if route.refers(&parent, gateway) {
            let (accepted, places) =
                match place(route, &parent, gateway.0, listeners, labels, taken) {
                    Ok(places) => (Verdict::yes("Accepted"), places),
                    Err(verdict) => (verdict, BTreeMap::new()),
                };
            found.push(Attachment { parent: value.clone(), accepted, places });
        }
    }
    for (listener, hosts) in found.iter().flat_map(|it| &it.places) {
        let all = hosts.iter().map(|host| (route.kind, host.clone()));
        taken.entry(*listener).or_default().extend(all);
    }
    found
}

fn place(
    route: &Route<'_>,
    parent: &Reference,
    own: &str,
    listeners: &[Served<'_>],
    labels: &BTreeMap<String, String>,
    taken: &Taken,
) -> Result<BTreeMap<usize, Vec<String>>, Verdict> {
    let named = |served: &Served<'_>| {
        parent.section_name.as_ref().is_none_or(|it| *it == served.listener.name)
            && parent.port.is_none_or(|it| it == served.listener.port)
    };
    let allows = |served: &Served<'_>| {
        let namespaces = &served.listener.allowed_routes.namespaces;
        served.kinds.contains(&route.kind) && allowed(namespaces, route.namespace(), own, labels)
    };
    let mut left: Vec<_> = listeners.iter().enumerate().filter(|(_, it)| named(it)).collect();
    if left.is_empty() {
        let words = "the Gateway has no listener with this sectionName and port";
        return Err(Verdict::no("NoMatchingParent", words));
    }
    left.retain(|(_, it)| allows(it));
    if left.is_empty() {
        let words = "allowedRoutes of the listeners do not include this namespace and kind";
        return Err(Verdict::no("NotAllowedByListeners", words));
    }
    let hosts = |served: &Served<'_>| {
        intersection(served.listener.hostname.as_deref(), &route.object.spec.hostnames)
    };
    let mut places: BTreeMap<_, _> = left.into_iter().map(|(at, it)| (at, hosts(it))).collect();
    places.retain(|_, hosts| !hosts.is_empty());
    if places.is_empty() {
        let words = "no listener has one of the hostnames";
        return Err(Verdict::no("NoMatchingListenerHostname", words));
    }
    places.retain(|listener, hosts| !contested(taken.get(listener), route.kind, hosts));
    if places.is_empty() {
        let words = "an older route of the other kind, HTTPRoute or GRPCRoute, has the same hosts";
        return Err(Verdict::no("HostnameConflict", words));
    }
    Ok(places)
}

fn contested(taken: Option<&Vec<(Kind, String)>>, kind: Kind, hosts: &[String]) -> bool {
    let meets = |(other, name): &(Kind, String)| {
        *other != kind && hosts.iter().any(|it| covers(it, name) || covers(name, it))
    };
    taken.is_some_and(|all| all.iter().any(meets))
}

fn allowed(
    namespaces: &AllowedNamespaces,
    namespace: &str,
    own: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    match namespaces.from.as_deref() {
        Some("All") => true,
        Some("Selector") => selects(&namespaces.selector, labels),
        Some("None") => false,
        _ => namespace == own,
    }
}

fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let holds = |it: &Expression| {
        let value = labels.get(&it.key);
        match it.operator.as_str() {
            "In" => value.is_some_and(|value| it.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !it.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    selector.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().all(holds)
}
