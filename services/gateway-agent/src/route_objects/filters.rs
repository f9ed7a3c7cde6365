//! Translates route filters to Envoy's form.

use serde_json::{Map, Value, json};

use super::objects::{Cors, Filter, Headers, Mirror, NewPath, Redirect, Rewrite, Typed};

pub(crate) type Unsupported = String;

pub(crate) fn headers(filters: &[Filter], to: &mut Map<String, Value>) -> Result<(), Unsupported> {
    for filter in filters {
        let (kind, headers) = match filter.kind.as_str() {
            "RequestHeaderModifier" => ("request", &filter.request_header_modifier),
            "ResponseHeaderModifier" => ("response", &filter.response_header_modifier),
            _ => continue,
        };
        modify(kind, headers, to)?;
    }
    Ok(())
}

fn modify(kind: &str, headers: &Headers, to: &mut Map<String, Value>) -> Result<(), Unsupported> {
    let Headers { set, add, remove } = headers;
    let names = set.iter().chain(add).map(|it| &it.name).chain(remove);
    if let Some(name) = names.into_iter().find(|it| it.eq_ignore_ascii_case("host")) {
        return Err(format!("{name} cannot be changed; use urlRewrite.hostname"));
    }
    let option = |action: &str, it: &Typed| -> Result<Value, Unsupported> {
        let value = plain(&it.value)?;
        // Envoy expands variables after `%`.
        let header = json!({"key": it.name, "value": value.replace('%', "%%")});
        Ok(json!({"header": header, "append_action": action}))
    };
    let set = set.iter().map(|it| option("OVERWRITE_IF_EXISTS_OR_ADD", it));
    let add = add.iter().map(|it| option("APPEND_IF_EXISTS_OR_ADD", it));
    let changed = set.chain(add).collect::<Result<Vec<_>, _>>()?;
    extend(to, &format!("{kind}_headers_to_add"), changed);
    extend(to, &format!("{kind}_headers_to_remove"), remove.iter().map(|it| json!(it)).collect());
    Ok(())
}

/// Appends to a list, creating it if necessary.
pub(crate) fn extend(to: &mut Map<String, Value>, key: &str, more: Vec<Value>) {
    if !more.is_empty()
        && let Value::Array(all) = to.entry(key).or_insert_with(|| json!([]))
    {
        all.extend(more);
    }
}

/// Rejects characters that Envoy forbids in headers, because Envoy would otherwise reject all
/// routes.
fn plain(text: &str) -> Result<&str, Unsupported> {
    match text.chars().any(char::is_control) {
        true => Err(format!("{text:?} has control characters")),
        false => Ok(text),
    }
}

/// Without an explicit port, redirects to the default port of the scheme, or to the listener's
/// port.
pub(crate) fn redirect(
    of: &Redirect,
    prefix: &str,
    listener: (bool, u16),
) -> Result<Value, Unsupported> {
    let mut action = Map::new();
    let (tls, port) = listener;
    let scheme = of.scheme.as_deref().unwrap_or(if tls { "https" } else { "http" });
    if of.scheme.is_some() {
        action.insert("scheme_redirect".to_owned(), json!(scheme));
    }
    if let Some(host) = &of.hostname {
        action.insert("host_redirect".to_owned(), json!(plain(host)?));
    }
    let usual = if scheme == "https" { 443 } else { 80 };
    let port = of.port.unwrap_or(if of.scheme.is_some() { usual } else { port });
    if port != usual {
        action.insert("port_redirect".to_owned(), json!(port));
    }
    match &of.path {
        Some(NewPath { replace_full_path: Some(path), .. }) => {
            action.insert("path_redirect".to_owned(), json!(plain(path)?));
        }
        Some(NewPath { replace_prefix_match: Some(path), .. }) => {
            action.extend(new_prefix(prefix, plain(path)?));
        }
        _ => {}
    }
    let code = match of.status_code.unwrap_or(302) {
        301 => "MOVED_PERMANENTLY",
        302 => "FOUND",
        303 => "SEE_OTHER",
        307 => "TEMPORARY_REDIRECT",
        308 => "PERMANENT_REDIRECT",
        code => return Err(format!("requestRedirect.statusCode {code}")),
    };
    action.insert("response_code".to_owned(), json!(code));
    Ok(Value::Object(action))
}

pub(crate) fn rewrite(
    of: &Rewrite,
    prefix: &str,
    to: &mut Map<String, Value>,
) -> Result<(), Unsupported> {
    if let Some(host) = &of.hostname {
        to.insert("host_rewrite_literal".to_owned(), json!(plain(host)?));
    }
    match &of.path {
        Some(NewPath { replace_full_path: Some(path), .. }) => {
            to.insert("regex_rewrite".to_owned(), pattern("^/.*$", plain(path)?));
        }
        Some(NewPath { replace_prefix_match: Some(path), .. }) => {
            to.extend(new_prefix(prefix, plain(path)?));
        }
        _ => {}
    }
    Ok(())
}

/// Avoids a double slash between the new prefix and the rest of the path.
fn new_prefix(prefix: &str, path: &str) -> Map<String, Value> {
    let prefix = prefix.trim_end_matches('/');
    let (key, value) = match (prefix, path.trim_end_matches('/')) {
        ("", start) => ("prefix_rewrite", json!(format!("{start}/"))),
        (_, start) if start.len() == path.len() && !path.is_empty() => {
            ("prefix_rewrite", json!(path))
        }
        (_, start) => {
            ("regex_rewrite", pattern(&format!("^{}/*", quoted(prefix)), &format!("{start}/")))
        }
    };
    Map::from_iter([(key.to_owned(), value)])
}

fn pattern(regex: &str, substitution: &str) -> Value {
    // `\1` would refer to a group of the expression.
    let substitution = substitution.replace('\\', "\\\\");
    json!({"pattern": {"regex": regex}, "substitution": substitution})
}

/// Escapes text into a regular expression that matches only that text.
fn quoted(text: &str) -> String {
    let mut all = String::new();
    for character in text.chars() {
        if !character.is_ascii_alphanumeric() && character != '/' && character.is_ascii() {
            all.push('\\');
        }
        all.push(character);
    }
    all
}

/// The name of Envoy's filter, which the chart adds to every listener of route objects.
pub(crate) const CORS: &str = "envoy.filters.http.cors";

/// For `*`, Envoy answers with the requested origin, method or headers, as the specification
/// requires with credentials.
pub(crate) fn cors(of: &Cors) -> Result<Value, Unsupported> {
    let origin = |it: &String| {
        let origin = plain(it)?.to_ascii_lowercase();
        Ok(match origin.contains('*') && origin != "*" {
            true => json!({"safe_regex": {"regex": quoted(&origin).replace("\\*", "[^/:]+")}}),
            false => json!({"exact": origin}),
        })
    };
    let origins = of.allow_origins.iter().map(origin).collect::<Result<Vec<_>, Unsupported>>()?;
    let mut policy = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": origins,
        "forward_not_matching_preflights": false,
        "allow_credentials": of.allow_credentials,
        "max_age": of.max_age.unwrap_or(5).to_string(),
    });
    // With credentials, a browser would treat `*` as a name.
    let exposed = of.expose_headers.iter().filter(|it| *it != "*" || !of.allow_credentials);
    let exposed: Vec<_> = exposed.cloned().collect();
    let lists = [
        ("allow_methods", &of.allow_methods),
        ("allow_headers", &of.allow_headers),
        ("expose_headers", &exposed),
    ];
    for (key, names) in lists {
        if !names.is_empty() {
            policy[key] = json!(plain(&names.join(","))?);
        }
    }
    Ok(policy)
}

pub(crate) fn mirror(of: &Mirror, cluster: &str) -> Value {
    let million = match (&of.fraction, of.percent) {
        (Some(it), _) => it.numerator * 1_000_000 / it.denominator.unwrap_or(100).max(1),
        (None, percent) => percent.unwrap_or(100) * 10_000,
    };
    json!({
        "cluster": cluster,
        "runtime_fraction": {"default_value": {"numerator": million, "denominator": "MILLION"}},
        "disable_shadow_host_suffix_append": true,
    })
}
