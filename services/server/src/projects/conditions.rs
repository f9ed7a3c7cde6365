//! Conditional requests by entity tag (RFC 9110 section 13).

use corelane::Problem;
use http::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};

use super::reply::bad_parameter;
use super::store::Version;

#[derive(Debug, Default)]
pub(crate) struct Conditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Proceed,
    /// 304, because the client already has this version.
    NotModified,
    /// 412: a condition failed.
    Failed,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Expectation {
    Any,
    Exactly(Version),
    /// The decision depends on the stored project.
    Ask,
}

#[derive(Debug, PartialEq)]
enum Tags {
    Any,
    Listed(Vec<Tag>),
}

#[derive(Debug, PartialEq)]
struct Tag {
    weak: bool,
    /// `None` for a tag that no project ever had.
    version: Option<Version>,
}

impl Conditions {
    /// Parses a request's headers.
    ///
    /// # Errors
    ///
    /// A field is malformed. If it were ignored, the version that it protects could be overwritten.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        Ok(Conditions {
            if_match: tags(headers, &IF_MATCH)?,
            if_none_match: tags(headers, &IF_NONE_MATCH)?,
        })
    }

    #[cfg(feature = "fuzzing")]
    pub(crate) fn parse(if_match: &[u8], if_none_match: &[u8]) -> Option<Self> {
        let (if_match, if_none_match) = (Some(parse(if_match)?), Some(parse(if_none_match)?));
        Some(Conditions { if_match, if_none_match })
    }

    /// Evaluates the conditions in the order of section 13.2.2.
    pub(crate) fn evaluate(&self, current: Version, is_read: bool) -> Verdict {
        // If-Match compares strongly (section 13.1.1), and If-None-Match compares weakly (section
        // 13.1.2).
        if self.if_match.as_ref().is_some_and(|tags| !tags.name(current, false)) {
            Verdict::Failed
        } else if !self.if_none_match.as_ref().is_some_and(|tags| tags.name(current, true)) {
            Verdict::Proceed
        } else if is_read {
            Verdict::NotModified
        } else {
            Verdict::Failed
        }
    }

    /// The version that a change requires. In the usual case, a single strong tag, the statement
    /// that makes the change also checks the version.
    pub(crate) fn expectation(&self) -> Expectation {
        match (&self.if_match, &self.if_none_match) {
            (None | Some(Tags::Any), None) => Expectation::Any,
            (Some(Tags::Listed(tags)), None) => match tags.as_slice() {
                [Tag { weak: false, version: Some(version) }] => Expectation::Exactly(*version),
                _ => Expectation::Ask,
            },
            _ => Expectation::Ask,
        }
    }
}

impl Tags {
    fn name(&self, current: Version, weakly: bool) -> bool {
        match self {
            Tags::Any => true,
            Tags::Listed(tags) => {
                tags.iter().any(|tag| tag.version == Some(current) && (weakly || !tag.weak))
            }
        }
    }
}

/// Tags of a field, which may have several lines (section 5.3).
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let lines: Vec<_> = headers.get_all(name).iter().map(|line| line.as_bytes()).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    parse(&lines.join(&b','))
        .map(Some)
        .ok_or_else(|| bad_parameter(name.as_str(), "entity tags in double quotes, or *"))
}

/// Parses `"*" / #entity-tag` (section 8.8.3). A tag may contain a comma.
fn parse(field: &[u8]) -> Option<Tags> {
    let mut rest = field.trim_ascii();
    if rest == b"*" {
        return Some(Tags::Any);
    }
    let mut tags = Vec::new();
    loop {
        // Empty list elements are ignored (section 5.6.1).
        while let Some(after) = rest.strip_prefix(b",") {
            rest = after.trim_ascii_start();
        }
        if rest.is_empty() {
            return Some(Tags::Listed(tags));
        }
        let unprefixed = rest.strip_prefix(b"W/");
        let weak = unprefixed.is_some();
        let opened = unprefixed.unwrap_or(rest).strip_prefix(b"\"")?;
        let end = opened.iter().position(|&byte| byte == b'"')?;
        let opaque = &opened[..end];
        if !opaque.iter().all(|&byte| byte > b' ' && byte != 0x7f) {
            return None;
        }
        tags.push(Tag { weak, version: Version::from_tag(opaque) });
        rest = opened[end + 1..].trim_ascii_start();
        if !rest.is_empty() && !rest.starts_with(b",") {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(if_match: Option<&str>, if_none_match: Option<&str>) -> Conditions {
        let read = |field: Option<&str>| field.map(|field| parse(field.as_bytes()).expect("tags"));
        Conditions { if_match: read(if_match), if_none_match: read(if_none_match) }
    }

    #[test]
    fn lists_are_read_and_what_is_malformed_is_refused() {
        for (field, tags) in [("*", None), ("", Some(0)), (r#"W/"2", "a,b" ,,"3""#, Some(3))] {
            match (parse(field.as_bytes()), tags) {
                (Some(Tags::Any), None) => {}
                (Some(Tags::Listed(listed)), Some(tags)) => assert_eq!(listed.len(), tags),
                (parsed, _) => panic!("{field}: {parsed:?}"),
            }
        }
        for wrong in ["1", r#""1"#, r#""1" "2""#, r#"w/"1""#, r#""1", *"#, r#""a b""#, "* , *"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn if_match_compares_strongly_and_if_none_match_weakly() {
        let current = Version(3);
        for (if_match, if_none_match, on_read, on_write) in [
            (None, None, Verdict::Proceed, Verdict::Proceed),
            (Some(r#""3""#), None, Verdict::Proceed, Verdict::Proceed),
            (Some(r#"W/"3""#), None, Verdict::Failed, Verdict::Failed),
            (Some(r#""1", "3""#), None, Verdict::Proceed, Verdict::Proceed),
            (Some(r#""03""#), None, Verdict::Failed, Verdict::Failed),
            (Some(""), None, Verdict::Failed, Verdict::Failed),
            (Some("*"), None, Verdict::Proceed, Verdict::Proceed),
            (None, Some(r#"W/"3""#), Verdict::NotModified, Verdict::Failed),
            (None, Some("*"), Verdict::NotModified, Verdict::Failed),
            (None, Some(r#""2""#), Verdict::Proceed, Verdict::Proceed),
            (Some(r#""2""#), Some(r#""3""#), Verdict::Failed, Verdict::Failed),
        ] {
            let asked = conditions(if_match, if_none_match);
            assert_eq!(asked.evaluate(current, true), on_read, "{asked:?}");
            assert_eq!(asked.evaluate(current, false), on_write, "{asked:?}");
        }
    }

    #[test]
    fn one_strong_tag_is_left_to_the_database() {
        let expectation = |m, n| conditions(m, n).expectation();
        assert_eq!(expectation(None, None), Expectation::Any);
        assert_eq!(expectation(Some("*"), None), Expectation::Any);
        assert_eq!(expectation(Some(r#""7""#), None), Expectation::Exactly(Version(7)));
        assert_eq!(expectation(Some(r#"W/"7""#), None), Expectation::Ask);
        assert_eq!(expectation(Some(r#""7","8""#), None), Expectation::Ask);
        assert_eq!(expectation(None, Some("*")), Expectation::Ask);
    }
}
