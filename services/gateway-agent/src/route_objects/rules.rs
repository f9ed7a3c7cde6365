//! Translates a route's rules to Envoy routes.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use super::attach::Route;
use super::backends::{Backends, Protocol, Target};
use super::filters::{self, Unsupported, extend};
use super::matches::{self, Matched};
use super::objects::{Backend, Filter, Kind, Match, Reference, Rule, Timeouts};
use super::prototypes::Prototypes;
use super::status::Verdict;

/// No cluster has this name, so requests get the response for a missing cluster.
const NOWHERE: &str = "invalid-backend";

/// Envoy routes for one match. Entries are ordered by these fields (Gateway API) before they are
/// ordered by the route's age.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) order: Reverse<[usize; 5]>,
    pub(crate) routes: Vec<Value>,
}

#[derive(Debug)]
pub(crate) struct Rules {
    /// `Err` rejects the route.
    pub(crate) entries: Result<Vec<Entry>, Verdict>,
    pub(crate) resolved: Verdict,
    pub(crate) targets: Vec<Target>,
}

struct Way<'a> {
    rule: &'a Rule,
    /// `None` marks a backendRef without a valid target.
    backends: Vec<(&'a Backend, Option<Target>)>,
    mirrors: Vec<Value>,
}

pub(crate) fn rules(
    route: &Route<'_>,
    backends: &Backends<'_>,
    prototypes: &Prototypes,
    listener: (bool, u16),
) -> Rules {
    let mut resolved = Verdict::yes("ResolvedRefs");
    let mut targets = Vec::new();
    let mut find = |to: &Reference| match backends.target(route, to, route.kind == Kind::Grpc) {
        Ok(target) => {
            targets.push(target.clone());
            Some(target)
        }
        Err(verdict) => {
            resolved = verdict;
            None
        }
    };
    let mut ways = Vec::new();
    for rule in &route.object.spec.rules {
        let backends = rule.backend_refs.iter().map(|it| (it, find(&it.reference))).collect();
        let mirrors =
            rule.filters.iter().filter(|it| it.kind == "RequestMirror").filter_map(|it| {
                let mirror = &it.request_mirror;
                find(&mirror.backend_ref).map(|target| filters::mirror(mirror, target.cluster()))
            });
        let mirrors = mirrors.collect();
        ways.push(Way { rule, backends, mirrors });
    }
    let mut entries = Vec::new();
    let mut error = None;
    for (number, way) in ways.iter().enumerate() {
        match way.entries(route, prototypes, listener) {
            Ok(more) => entries.extend(more),
            Err(words) => {
                let words = format!("rules[{number}]: {words}");
                error = error.or(Some(Verdict::no("UnsupportedValue", &words)));
            }
        }
    }
    Rules { entries: error.map_or(Ok(entries), Err), resolved, targets }
}

impl Backend {
    fn weight(&self) -> u32 {
        self.weight.unwrap_or(1)
    }
}

impl Way<'_> {
    fn entries(
        &self,
        route: &Route<'_>,
        prototypes: &Prototypes,
        listener: (bool, u16),
    ) -> Result<Vec<Entry>, Unsupported> {
        supported(self.rule)?;
        let every = [Match::default()];
        let all = if self.rule.matches.is_empty() { &every[..] } else { &self.rule.matches };
        let entry = |it: &Match| {
            let matched = matches::matched(it, route.kind)?;
            let order = Reverse(matched.order);
            let mut routes = self.routes(route, prototypes, listener, &matched)?;
            let mut name = route.name();
            if let Some(rule) = &self.rule.name {
                name = format!("{name}/{rule}");
            }
            routes.iter_mut().for_each(|it| it["name"] = json!(name));
            Ok(Entry { order, routes })
        };
        all.iter().map(entry).collect()
    }

    fn routes(
        &self,
        route: &Route<'_>,
        prototypes: &Prototypes,
        listener: (bool, u16),
        matched: &Matched,
    ) -> Result<Vec<Value>, Unsupported> {
        let mut changes = Map::new();
        filters::headers(&self.rule.filters, &mut changes)?;
        let of = |kind: &str| self.rule.filters.iter().find(|it| it.kind == kind);
        let grpc = route.kind == Kind::Grpc;
        let reply = match of("RequestRedirect") {
            Some(filter) => {
                let action =
                    filters::redirect(&filter.request_redirect, &matched.prefix, listener)?;
                Some(json!({"redirect": action}))
            }
            // A gRPC call without a backend fails with UNAVAILABLE.
            None if self.leads_nowhere() => {
                Some(json!({"direct_response": {"status": if grpc { 503 } else { 500 }}}))
            }
            None => None,
        };
        if let Some(Value::Object(mut alone)) = reply {
            alone.insert("match".to_owned(), matched.merged(&Value::Null));
            merge(&mut alone, &changes);
            return Ok(vec![Value::Object(alone)]);
        }
        // An HTTP/1.1 client cannot open a WebSocket to HTTP/2 replicas.
        let leads_to = |protocol| self.targets().any(|it| it.protocol == protocol);
        let upgrades = leads_to(Protocol::WebSocket) && !leads_to(Protocol::Http2);
        let prototypes = match (grpc, upgrades) {
            (true, _) => &prototypes.routes.grpc,
            (false, true) => &prototypes.routes.upgrade,
            (false, false) => &prototypes.routes.http,
        };
        let forward = |prototype: &Value| {
            let mut copy = prototype.as_object().cloned().unwrap_or_default();
            copy.insert("match".to_owned(), matched.merged(&prototype["match"]));
            merge(&mut copy, &changes);
            if let Some(filter) = of("CORS") {
                let settings = copy.entry("typed_per_filter_config").or_insert_with(|| json!({}));
                settings[filters::CORS] = filters::cors(&filter.cors)?;
            }
            if let Some(Value::Object(action)) = copy.get_mut("route") {
                self.action(action, grpc)?;
                if let Some(filter) = of("URLRewrite") {
                    filters::rewrite(&filter.url_rewrite, &matched.prefix, action)?;
                }
            }
            Ok(Value::Object(copy))
        };
        prototypes.iter().map(forward).collect()
    }

    fn targets(&self) -> impl Iterator<Item = &Target> {
        self.backends.iter().filter_map(|(_, target)| target.as_ref())
    }

    fn leads_nowhere(&self) -> bool {
        self.backends.iter().all(|(it, target)| it.weight() == 0 || target.is_none())
    }

    fn action(&self, action: &mut Map<String, Value>, grpc: bool) -> Result<(), Unsupported> {
        action.remove("cluster");
        let cluster = |(backend, target): &(&Backend, Option<Target>)| {
            let name = target.as_ref().map_or(NOWHERE, Target::cluster);
            let mut cluster = Map::new();
            cluster.insert("name".to_owned(), json!(name));
            cluster.insert("weight".to_owned(), json!(backend.weight()));
            filters::headers(&backend.filters, &mut cluster)?;
            Ok(Value::Object(cluster))
        };
        let clusters =
            self.backends.iter().map(cluster).collect::<Result<Vec<_>, Unsupported>>()?;
        action.insert("weighted_clusters".to_owned(), json!({"clusters": clusters}));
        let missing = if grpc { "SERVICE_UNAVAILABLE" } else { "INTERNAL_SERVER_ERROR" };
        action.insert("cluster_not_found_response_code".to_owned(), json!(missing));
        extend(action, "request_mirror_policies", self.mirrors.clone());
        // Request limits do not apply to upgraded connections.
        match action.contains_key("upgrade_configs") {
            true => Ok(()),
            false => timeouts(&self.rule.timeouts, action),
        }
    }
}

fn merge(route: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (key, more) in changes {
        extend(route, key, more.as_array().cloned().unwrap_or_default());
    }
}

fn supported(rule: &Rule) -> Result<(), Unsupported> {
    const OF_RULES: [&str; 6] = [
        "RequestHeaderModifier",
        "ResponseHeaderModifier",
        "RequestRedirect",
        "URLRewrite",
        "RequestMirror",
        "CORS",
    ];
    if let Some(key) = rule.unknown.keys().next() {
        return Err(format!("{key} is not supported"));
    }
    let unknown = |filters: &[Filter], known: &[&str]| {
        filters.iter().find(|it| !known.contains(&it.kind.as_str())).map(|it| it.kind.clone())
    };
    let of_backends = rule.backend_refs.iter().find_map(|it| unknown(&it.filters, &OF_RULES[..2]));
    if let Some(kind) = unknown(&rule.filters, &OF_RULES) {
        return Err(format!("a filter {kind} is not supported"));
    }
    if let Some(kind) = of_backends {
        return Err(format!("a filter {kind} of a backendRef is not supported"));
    }
    let has = |kind: &str| rule.filters.iter().any(|it| it.kind == kind);
    // Envoy answers a redirect before it reads a policy.
    match ["URLRewrite", "CORS"].into_iter().find(|it| has("RequestRedirect") && has(it)) {
        Some(kind) => Err(format!("RequestRedirect and {kind} exclude each other")),
        None => Ok(()),
    }
}

/// Timeouts for the whole request and for each attempt. Without retries, the shorter timeout
/// applies to the only attempt.
fn timeouts(of: &Timeouts, action: &mut Map<String, Value>) -> Result<(), Unsupported> {
    let read = |text: &Option<String>| text.as_deref().map(milliseconds).transpose();
    let (request, attempt) = (read(&of.request)?, read(&of.backend_request)?);
    let attempt = attempt.filter(|it| *it > 0);
    let retries = action.get_mut("retry_policy").and_then(Value::as_object_mut);
    let whole = match (request, attempt, retries) {
        (request, Some(attempt), Some(retries)) => {
            retries.insert("per_try_timeout".to_owned(), json!(seconds(attempt)));
            request
        }
        (None | Some(0), Some(attempt), None) => Some(attempt),
        (Some(request), Some(attempt), None) => Some(request.min(attempt)),
        (request, None, _) => request,
    };
    if let Some(whole) = whole {
        action.insert("timeout".to_owned(), json!(seconds(whole)));
        // A shorter idle timeout would end the request first, and outlier detection would not count
        // that as a failure.
        let silence = if whole == 0 { 0 } else { whole + 1000 };
        action.insert("idle_timeout".to_owned(), json!(seconds(silence)));
    }
    Ok(())
}

fn milliseconds(text: &str) -> Result<u64, Unsupported> {
    let mut sum = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let (number, unit) = rest.split_at(digits);
        let end = unit.find(|it: char| it.is_ascii_digit()).unwrap_or(unit.len());
        let factor = match &unit[..end] {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return Err(format!("timeouts: {text:?} is no duration")),
        };
        let number: u64 =
            number.parse().map_err(|_| format!("timeouts: {text:?} is no duration"))?;
        sum += number * factor;
        rest = &unit[end..];
    }
    Ok(sum)
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}s", milliseconds / 1000, milliseconds % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, wanted) in
            [("1h2m3s4ms", 3_723_004), ("0s", 0), ("500ms", 500), ("90m", 5_400_000)]
        {
            assert_eq!(milliseconds(text), Ok(wanted), "{text}");
        }
        for text in ["1", "s", "1d", "1.5s"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
        assert_eq!(seconds(1_004), "1.004s");
    }
}
