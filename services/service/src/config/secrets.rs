//! Values that are never shown: values of secret keys, and passwords in URLs and connection
//! strings.

use std::borrow::Cow;

use serde_json::Value;

pub(super) const NOT_SHOWN: &str = "(not shown)";

const ANYWHERE: [&str; 4] = ["password", "passwd", "passphrase", "secret"];

/// Words that mark a secret at the end of a name: `api_token` is a secret, `token_lifetime` is not.
const LAST: [&str; 11] = [
    "token",
    "tokens",
    "key",
    "keys",
    "apikey",
    "credential",
    "credentials",
    "dsn",
    "pwd",
    "pass",
    "pat",
];

/// Whether the name of a key or parameter marks its value as a secret, as opposed to a file with
/// the secret.
pub(super) fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let last = name.rsplit(['.', '_', '-']).next().unwrap_or_default();
    let named = ANYWHERE.iter().any(|word| name.contains(word)) || LAST.contains(&last);
    named && !["file", "path"].contains(&last)
}

/// Whether a schema, or a part of it, has this keyword.
pub(super) fn has(schema: &Value, keyword: &str, value: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.get(keyword) == Some(value) || map.values().any(|part| has(part, keyword, value))
        }
        Value::Array(parts) => parts.iter().any(|part| has(part, keyword, value)),
        _ => false,
    }
}

/// Whether a parser may accept a secret. A parser that accepts numbers, words or file paths does
/// not.
pub(super) fn may_be_secret(schema: &Value) -> bool {
    let is_number = schema["type"] != "string" && !schema["type"].is_null();
    !is_number && schema["format"] != "path" && schema.get("enum").is_none()
}

/// Removes passwords from URLs (`scheme://user:password@host`) and from parameters of a URL or
/// connection string (`host=a password=b`).
pub(super) fn without_passwords(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '=']) {
        return Cow::Borrowed(text);
    }
    let parts = text.split_inclusive([' ', '\t', '\n', ',', ';', '&', '?', '"', '\'']);
    let hidden: String =
        parts.map(|part| without_password(part).unwrap_or_else(|| part.to_owned())).collect();
    if hidden == text { Cow::Borrowed(text) } else { Cow::Owned(hidden) }
}

/// The part without its password; `None` if it has no password.
fn without_password(part: &str) -> Option<String> {
    if let Some((name, value)) = part.split_once('=')
        && is_sensitive(name)
    {
        let end = value.chars().last().filter(|end| " \t\n,;&?\"'".contains(*end));
        return Some(format!("{name}={NOT_SHOWN}{}", end.map(String::from).unwrap_or_default()));
    }
    // A password may contain a slash or an `@` that should be percent-encoded.
    let (user, host) = part.rsplit_once('@')?;
    let (scheme, user) =
        user.split_once("://").map_or(("", user), |(_, of)| user.split_at(user.len() - of.len()));
    // `https://TOKEN@host` has a token in place of the user.
    let is_token = scheme.ends_with("http://") || scheme.ends_with("https://");
    let hides = user.contains(':') || (is_token && !user.contains('/'));
    hides.then(|| format!("{scheme}{NOT_SHOWN}@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_secrets() {
        for name in [
            "shop.api_token",
            "tokens",
            "shop.key",
            "private-key",
            "API_KEY",
            "db.dsn",
            "credentials",
            "shop.password",
            "client_secret",
            "secrets.of.all",
            "PASSPHRASE",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in [
            "shop.greeting",
            "database.password_file",
            "token_path",
            "token_lifetime",
            "keyboard",
            "passing",
        ] {
            assert!(!is_sensitive(name), "{name}");
        }
    }

    #[test]
    fn passwords_are_cut_out_of_urls_and_connection_strings() {
        for (text, shown) in [
            ("postgres://me:hunter2@db/x", "postgres://(not shown)@db/x"),
            (
                "a=1, redis://:hunter2@one:1,redis://:hunter2@two:2",
                "a=1, redis://(not shown)@one:1,redis://(not shown)@two:2",
            ),
            ("amqp://me:hunt/er@2@host/x", "amqp://(not shown)@host/x"),
            ("https://hunter2@git.example/x", "https://(not shown)@git.example/x"),
            ("me:hunter2@db/x", "(not shown)@db/x"),
            (
                "postgres://me@db/x?a=1&password=hunter2&b=2",
                "postgres://me@db/x?a=1&password=(not shown)&b=2",
            ),
            ("host=db password=hunter2 port=1", "host=db password=(not shown) port=1"),
            ("Server=db;Pwd=hunter2", "Server=db;Pwd=(not shown)"),
        ] {
            assert_eq!(without_passwords(text), shown);
        }
        for text in [
            "postgres://me@db/x?sslmode=require",
            "me@shop.example",
            "https://cdn.example/react@18",
            "*.css: max-age=60; *: no-store",
            "unix:/run/a.sock?mode=660",
            "info,corelane::request=debug",
        ] {
            assert_eq!(without_passwords(text), text);
        }
    }
}
