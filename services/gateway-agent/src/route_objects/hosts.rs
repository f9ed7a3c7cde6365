//! Virtual hosts: routes of objects by host, placed after the routes of the chart's values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::hostnames::best;
use super::listeners::Served;
use super::rules::Entry;

pub(crate) type Hosts = BTreeMap<String, Vec<Value>>;

#[derive(Debug)]
pub(crate) struct Place<'a> {
    pub(crate) listener: usize,
    pub(crate) host: String,
    pub(crate) entries: &'a [Entry],
}

/// Routes of each host. Among the listeners on a port, only the listener with the most specific
/// name serves a host. Among its routes, only the routes with the most specific name apply.
/// `places` is sorted by route age.
pub(crate) fn hosts(listeners: &[Served<'_>], places: &[Place<'_>]) -> Hosts {
    let names = listeners.iter().filter(|it| it.programmed()).map(|it| name(it).to_owned());
    let names: BTreeSet<_> = places.iter().map(|it| it.host.clone()).chain(names).collect();
    let mut found = Hosts::new();
    for host in names {
        let [plain, tls] = [false, true].map(|tls| of_transport(&host, tls, listeners, places));
        let has = |tls: bool| listeners.iter().any(|it| it.programmed() && it.tls() == tls);
        let routes = match (has(false), has(true)) {
            (true, true) if plain != tls => {
                let mut both = only(plain, "http");
                both.extend(only(tls, "https"));
                both
            }
            (true, _) => plain,
            (false, _) => tls,
        };
        found.insert(host, routes);
    }
    found
}

fn name<'a>(served: &Served<'a>) -> &'a str {
    served
        .listener
        .hostname
        .as_deref()
        .filter(|it| !it.is_empty())
        .unwrap_or(super::hostnames::EVERY)
}

/// Routes of a host for requests with or without TLS.
fn of_transport(
    host: &str,
    tls: bool,
    listeners: &[Served<'_>],
    places: &[Place<'_>],
) -> Vec<Value> {
    let served = |it: &Served<'_>| it.programmed() && it.tls() == tls;
    let owner = best(listeners.iter().filter(|it| served(it)).map(name), host);
    let owner = listeners.iter().position(|it| served(it) && Some(name(it)) == owner);
    let own: Vec<_> = places.iter().filter(|it| Some(it.listener) == owner).collect();
    let chosen = best(own.iter().map(|it| it.host.as_str()), host);
    let mut entries: Vec<&Entry> = own
        .iter()
        .filter(|it| Some(it.host.as_str()) == chosen)
        .flat_map(|it| it.entries)
        .collect();
    // A stable sort keeps equal entries in order of age and of position in their route.
    entries.sort_by_key(|it| it.order);
    entries.into_iter().flat_map(|it| it.routes.clone()).collect()
}

/// Limits routes to plaintext or TLS requests. Envoy itself, or a trusted proxy in front of it,
/// sets this header.
fn only(mut routes: Vec<Value>, scheme: &str) -> Vec<Value> {
    let header = json!({"name": "x-forwarded-proto", "string_match": {"exact": scheme}});
    for route in &mut routes {
        match &mut route["match"]["headers"] {
            Value::Array(all) => all.push(header.clone()),
            none => *none = json!([header]),
        }
    }
    routes
}

/// Appends the objects' routes to the values' routes, host by host. A host that appears only in
/// objects starts with a copy of the values' catch-all routes.
pub(crate) fn merged(values: &[Value], objects: &Hosts) -> Vec<Value> {
    let domains = |host: &Value| -> Vec<String> {
        let all = host["domains"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let owned: BTreeMap<String, usize> = (0..values.len())
        .flat_map(|at| domains(&values[at]).into_iter().map(move |domain| (domain, at)))
        .collect();
    let known = owned.keys().chain(objects.keys()).cloned().collect::<BTreeSet<_>>();
    let mut groups: BTreeMap<(usize, Option<&str>), Vec<String>> = BTreeMap::new();
    for domain in known {
        let Some(first) = best(owned.keys().map(String::as_str), &domain) else { continue };
        let then = best(objects.keys().map(String::as_str), &domain);
        groups.entry((owned[first], then)).or_default().push(domain);
    }
    let host = |((at, then), domains): ((usize, Option<&str>), Vec<String>)| {
        let mut host = values[at].clone();
        let more = then.and_then(|it| objects.get(it)).into_iter().flatten().cloned();
        if let Value::Array(routes) = &mut host["routes"] {
            routes.extend(more);
        }
        host["name"] = json!(domains[0].replace('*', "every"));
        host["domains"] = json!(domains);
        host
    };
    groups.into_iter().map(host).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_objects_follow_those_of_the_values() {
        let values = [
            json!({"name": "every", "domains": ["*"], "routes": ["v*"]}),
            json!({"name": "a.io", "domains": ["a.io", "b.io"], "routes": ["va"]}),
        ];
        let objects = ["*", "a.io", "c.io", "*.d.io"];
        let objects = objects.map(|it| (it.to_owned(), vec![json!(format!("o{it}"))]));
        let found = merged(&values, &Hosts::from(objects));
        let found: Vec<_> =
            found.iter().map(|it| json!([it["name"], it["domains"], it["routes"]])).collect();
        let wanted = json!([
            ["every", ["*"], ["v*", "o*"]],
            ["every.d.io", ["*.d.io"], ["v*", "o*.d.io"]],
            ["c.io", ["c.io"], ["v*", "oc.io"]],
            ["b.io", ["b.io"], ["va", "o*"]],
            ["a.io", ["a.io"], ["va", "oa.io"]],
        ]);
        assert_eq!(json!(found), wanted);
    }
}
