//! Normalises request paths.

use std::borrow::Cow;

/// The only dot folder that is served, because its content is meant for clients (RFC 8615).
const WELL_KNOWN: &str = ".well-known";

/// Decodes a path, or returns `None` if it cannot name a served file.
///
/// A path has the form `name/name/name`, optionally with a trailing `/`. This excludes `.` and
/// `..`, empty segments, encoded slashes, and leading dots as in `.git` or `.env`. Backslashes and
/// control characters are rejected because other software may interpret them differently.
pub(crate) fn normal(raw: &str) -> Option<Cow<'_, str>> {
    let path = decode(raw)?;
    let names = path.strip_suffix('/').unwrap_or(&path);
    let served = |(index, name): (usize, &str)| is_name(name) || (index == 0 && name == WELL_KNOWN);
    (path.is_empty() || names.split('/').enumerate().all(served)).then_some(path)
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte != b'\\' && !byte.is_ascii_control();
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// Decodes percent-encoding (RFC 3986 section 2.1), except for encoded slashes.
fn decode(raw: &str) -> Option<Cow<'_, str>> {
    let Some((plain, _)) = raw.split_once('%') else { return Some(Cow::Borrowed(raw)) };
    let mut decoded = plain.as_bytes().to_vec();
    let mut rest = raw.as_bytes()[plain.len()..].iter();
    while let Some(&byte) = rest.next() {
        let byte = match byte {
            b'%' => hex(*rest.next()?)? << 4 | hex(*rest.next()?)?,
            _ => {
                decoded.push(byte);
                continue;
            }
        };
        if byte == b'/' {
            return None;
        }
        decoded.push(byte);
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        for (raw, path) in [
            ("", ""),
            ("a", "a"),
            ("a/", "a/"),
            ("a/b.txt", "a/b.txt"),
            ("a%20b", "a b"),
            ("%61", "a"),
            ("a%2Etxt", "a.txt"),
            ("%C3%A9", "é"),
            ("%25", "%"),
            ("a..b", "a..b"),
            ("a:b", "a:b"),
            (".well-known/x", ".well-known/x"),
        ] {
            assert_eq!(normal(raw).as_deref(), Some(path), "{raw}");
        }
    }

    #[test]
    fn what_names_no_file_is_refused() {
        for raw in [
            "/",
            "//",
            "/a",
            "a//",
            "a//b",
            ".",
            "..",
            "./a",
            "a/.",
            "a/..",
            "a/../b",
            "%2e%2e/a",
            "%2e%2e%2fa",
            "a%2fb",
            "a%2Fb",
            "%00",
            "a%00b",
            "a\\b",
            "..\\a",
            "a%5cb",
            "%0a",
            "%7f",
            "%",
            "%4",
            "%zz",
            "%+1",
            "%ff",
            "%c0%ae%c0%ae/a",
            ".git/config",
            "a/.env",
            "%2egit",
            "a/.well-known/x",
        ] {
            assert_eq!(normal(raw), None, "{raw}");
        }
    }
}
