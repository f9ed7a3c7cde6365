//! Cache-Control rules for files.

use std::str::FromStr;

use http::header::HeaderValue;

/// RFC 9111 section 5.2.2.4: caches may keep a file but must revalidate it for each request. No
/// client sees a stale file, and an unchanged file costs only a 304.
const DEFAULT: HeaderValue = HeaderValue::from_static("no-cache");

/// Cache-Control rules: `pattern: value`, separated by semicolons. A file gets the first rule whose
/// pattern matches its path below the root, or `no-cache` if no pattern matches. In a pattern, `*`
/// matches any characters, including slashes.
///
/// ```
/// use corelane_files::Rules;
///
/// let rules: Rules = "assets/*: public, max-age=31536000, immutable; *.html: no-cache"
///     .parse()
///     .unwrap();
/// assert!("assets/*".parse::<Rules>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<(String, HeaderValue)>);

impl Rules {
    pub(crate) fn of(&self, path: &str) -> HeaderValue {
        let rule = self.0.iter().find(|(pattern, _)| matches(pattern, path));
        rule.map_or(DEFAULT, |(_, value)| value.clone())
    }
}

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty());
        rules.map(rule).collect::<Option<_>>().map(Rules).ok_or_else(|| {
            "rules as in `assets/*: public, max-age=31536000, immutable; *: no-cache`".to_owned()
        })
    }
}

fn rule(text: &str) -> Option<(String, HeaderValue)> {
    let (pattern, value) = text.split_once(':')?;
    let (pattern, value) = (pattern.trim(), value.trim());
    let valid = !pattern.is_empty() && !pattern.starts_with('/') && !value.is_empty();
    valid.then_some((pattern.to_owned(), HeaderValue::from_str(value).ok()?))
}

/// The first piece is a prefix of the path, the last piece is a suffix, and the other pieces occur
/// between them in order.
fn matches(pattern: &str, path: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == path };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut path) = path.strip_prefix(first).and_then(|path| path.strip_suffix(last)) else {
        return false;
    };
    middle.split('*').all(|piece| match path.find(piece) {
        Some(at) => {
            path = &path[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_counts() {
        let rules: Rules =
            " *.html : no-store ; assets/*: max-age=60, immutable;".parse().expect("rules");
        assert_eq!(rules.of("a.html"), "no-store");
        assert_eq!(rules.of("assets/a.html"), "no-store");
        assert_eq!(rules.of("assets/a/b.js"), "max-age=60, immutable");
        assert_eq!(rules.of("a.js"), "no-cache");
        assert_eq!("".parse(), Ok(Rules::default()));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for wrong in ["a", ": b", "a:", "a: \n", "/a: b", "a: b; c"] {
            assert!(wrong.parse::<Rules>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, path, fits) in [
            ("*", "", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*a", "ba", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c", false),
            ("*b*b*", "abab", true),
            ("*b*b*", "ab", false),
            ("*/*.js", "x/y/z.js", true),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }
}
