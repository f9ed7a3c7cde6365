//! Translates the match of a rule.

use serde_json::{Map, Value, json};

use super::filters::Unsupported;
use super::objects::{GrpcMethod, Kind, Match, Method, Typed};

#[derive(Debug)]
pub(crate) struct Matched {
    path: (&'static str, String),
    headers: Vec<Value>,
    query: Vec<Value>,
    /// The path or prefix that a rewrite replaces.
    pub(crate) prefix: String,
    /// Rank of the match. Matches with the highest rank come first.
    pub(crate) order: [usize; 5],
}

impl Matched {
    pub(crate) fn merged(&self, prototype: &Value) -> Value {
        let mut headers = prototype["headers"].as_array().cloned().unwrap_or_default();
        headers.extend(self.headers.iter().cloned());
        let mut found = Map::new();
        let path = match self.path.0 {
            "safe_regex" => json!({"regex": self.path.1}),
            _ => json!(self.path.1),
        };
        found.insert(self.path.0.to_owned(), path);
        if !headers.is_empty() {
            found.insert("headers".to_owned(), json!(headers));
        }
        if !self.query.is_empty() {
            found.insert("query_parameters".to_owned(), json!(self.query));
        }
        Value::Object(found)
    }
}

/// Accepts only exact values and prefixes: one regular expression that Envoy rejects would block
/// route updates for all teams.
pub(crate) fn matched(of: &Match, kind: Kind) -> Result<Matched, Unsupported> {
    if let Some(key) = of.unknown.keys().next() {
        return Err(format!("a match by {key} is not supported"));
    }
    let text = |it: &Typed| json!({"name": it.name, "string_match": {"exact": it.value}});
    let mut headers = Vec::new();
    let mut seen = Vec::new();
    for header in &of.headers {
        exact(header, "headers")?;
        // If several headers have the same name, the first one applies.
        let name = header.name.to_ascii_lowercase();
        if !seen.contains(&name) {
            headers.push(text(header));
            seen.push(name);
        }
    }
    let mut query = Vec::new();
    for parameter in &of.query_params {
        exact(parameter, "queryParams")?;
        if !query.iter().any(|it: &Value| it["name"] == parameter.name.as_str()) {
            query.push(text(parameter));
        }
    }
    let (named, asked) = (headers.len(), query.len());
    let (path, order) = match (kind, &of.method) {
        (Kind::Http, method) => {
            let path = http(of.path.as_ref())?;
            let exact = usize::from(path.0 == "path");
            if let Some(Method::Http(method)) = method {
                let is = json!({"exact": method});
                headers.push(json!({"name": ":method", "string_match": is}));
            }
            let length = of.path.as_ref().map_or(1, |it| it.value.len());
            (path, [exact, length, usize::from(method.is_some()), named, asked])
        }
        (Kind::Grpc, Some(Method::Grpc(method))) => {
            let order = [method.service.len(), method.method.len(), named, 0, 0];
            (grpc(method)?, order)
        }
        (Kind::Grpc, _) => (("prefix", "/".to_owned()), [0, 0, named, 0, 0]),
    };
    let prefix = path.1.clone();
    Ok(Matched { path, headers, query, prefix, order })
}

fn exact(value: &Typed, of: &str) -> Result<(), Unsupported> {
    match value.kind.as_deref() {
        None | Some("Exact") => Ok(()),
        Some(kind) => Err(format!("{of} of the type {kind} are not supported; use Exact")),
    }
}

/// A prefix ends at a path segment.
fn http(path: Option<&Typed>) -> Result<(&'static str, String), Unsupported> {
    let Some(path) = path else { return Ok(("prefix", "/".to_owned())) };
    match path.kind.as_deref().unwrap_or("PathPrefix") {
        "Exact" => Ok(("path", path.value.clone())),
        "PathPrefix" => match path.value.trim_end_matches('/') {
            "" => Ok(("prefix", "/".to_owned())),
            prefix => Ok(("path_separated_prefix", prefix.to_owned())),
        },
        kind => Err(format!("a path of the type {kind} is not supported; use Exact or PathPrefix")),
    }
}

/// A gRPC call's path is `/SERVICE/METHOD`.
fn grpc(of: &GrpcMethod) -> Result<(&'static str, String), Unsupported> {
    let GrpcMethod { kind, service, method } = of;
    let plain = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || "._".contains(it));
    match kind.as_deref() {
        None | Some("Exact") => {}
        Some(kind) => {
            return Err(format!("a method of the type {kind} is not supported; use Exact"));
        }
    }
    match (service.as_str(), method.as_str()) {
        (service, method) if !plain(service) || !plain(method) => {
            Err(format!("method: {service}/{method} is no name of a method"))
        }
        ("", "") => Ok(("prefix", "/".to_owned())),
        (service, "") => Ok(("path_separated_prefix", format!("/{service}"))),
        ("", method) => Ok(("safe_regex", format!("/[^/]+/{method}"))),
        (service, method) => Ok(("path", format!("/{service}/{method}"))),
    }
}
