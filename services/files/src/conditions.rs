//! Conditional requests (RFC 9110 section 13).

use std::time::{Duration, SystemTime};

use http::header::{
    HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName};
use httpdate::parse_http_date;

#[derive(Clone, Debug)]
pub(crate) struct Validators {
    pub(crate) etag: HeaderValue,
    /// Modification time in whole seconds, as in the header.
    pub(crate) modified: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    /// 304, because the client already has this version.
    NotModified,
    /// 412: a precondition failed.
    Failed,
}

/// Whether a request has neither conditions nor ranges (the usual case). Checking each name once is
/// cheaper than looking up each condition.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    !headers.keys().any(|name| name.as_str().starts_with("if-") || *name == RANGE)
}

/// Evaluates preconditions in the order of section 13.2.2.
pub(crate) fn evaluate(headers: &HeaderMap, validators: &Validators) -> Verdict {
    let Validators { etag, modified } = validators;
    if headers.contains_key(IF_MATCH) {
        if !lists(headers, IF_MATCH, |tag| tag.is_strongly(etag)) {
            return Verdict::Failed;
        }
    } else if date(headers, IF_UNMODIFIED_SINCE).is_some_and(|date| *modified > date) {
        return Verdict::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if lists(headers, IF_NONE_MATCH, |tag| tag.is_weakly(etag)) {
            return Verdict::NotModified;
        }
    } else if date(headers, IF_MODIFIED_SINCE).is_some_and(|date| *modified <= date) {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a Range applies: there is no If-Range, or it names exactly this representation (section
/// 13.1.5).
pub(crate) fn range_holds(headers: &HeaderMap, validators: &Validators) -> bool {
    let Some(condition) = headers.get(IF_RANGE) else { return true };
    if let Some((tag, rest)) = Tag::parse(condition.as_bytes()) {
        return rest.is_empty() && tag.is_strongly(&validators.etag);
    }
    // A date is strong only once its second is over (section 8.8.2.2).
    let over = || {
        let age = SystemTime::now().duration_since(validators.modified);
        age.is_ok_and(|age| age >= Duration::from_secs(1))
    };
    date(headers, IF_RANGE) == Some(validators.modified) && over()
}

/// Invalid or repeated dates are ignored.
fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    parse_http_date(value.to_str().ok()?).ok()
}

fn lists(headers: &HeaderMap, name: HeaderName, matches: impl Fn(&Tag) -> bool) -> bool {
    headers.get_all(name).iter().any(|value| {
        let mut rest = value.as_bytes().trim_ascii();
        if rest == b"*" {
            return true;
        }
        loop {
            // A list may have empty elements (section 5.6.1.2).
            while let [b',' | b' ' | b'\t', after @ ..] = rest {
                rest = after;
            }
            // Nothing after an invalid tag can be parsed.
            let Some((tag, after)) = Tag::parse(rest) else { return false };
            if matches(&tag) {
                return true;
            }
            rest = after;
        }
    })
}

/// An entity tag (section 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Parses a tag. Returns the tag and the rest of the text.
    fn parse(text: &'a [u8]) -> Option<(Tag<'a>, &'a [u8])> {
        let (weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |rest| (true, rest));
        let inner = quoted.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"')?;
        let (opaque, rest) = quoted.split_at(end + 2);
        Some((Tag { weak, opaque }, rest))
    }

    fn of(etag: &HeaderValue) -> Option<Tag<'_>> {
        Tag::parse(etag.as_bytes()).map(|(tag, _)| tag)
    }

    /// Section 8.8.3.2: strong comparison.
    fn is_strongly(&self, etag: &HeaderValue) -> bool {
        let strong = |tag: Tag<'_>| !tag.weak && !self.weak && tag.opaque == self.opaque;
        Tag::of(etag).is_some_and(strong)
    }

    fn is_weakly(&self, etag: &HeaderValue) -> bool {
        Tag::of(etag).is_some_and(|tag| tag.opaque == self.opaque)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn validators(etag: &'static str) -> Validators {
        let modified = parse_http_date(THEN).expect("a date");
        Validators { etag: HeaderValue::from_static(etag), modified }
    }

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field =
            |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut headers = HeaderMap::new();
        for (name, value) in fields.iter().copied().map(field) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn preconditions_are_evaluated_in_their_order() {
        use Verdict::{Failed, NotModified, Proceed};
        let cases: &[(&[(&str, &str)], Verdict)] = &[
            (&[], Proceed),
            (&[("if-match", "\"a\"")], Proceed),
            (&[("if-match", "\"x\", \"a\"")], Proceed),
            (&[("if-match", "\"x\""), ("if-match", "\"a\"")], Proceed),
            (&[("if-match", "*")], Proceed),
            (&[("if-match", "\"x\"")], Failed),
            (&[("if-match", "W/\"a\"")], Failed),
            (&[("if-match", "a")], Failed),
            (&[("if-match", "")], Failed),
            (&[("if-unmodified-since", THEN)], Proceed),
            (&[("if-unmodified-since", BEFORE)], Failed),
            (&[("if-unmodified-since", "yesterday")], Proceed),
            (&[("if-match", "\"a\""), ("if-unmodified-since", BEFORE)], Proceed),
            (&[("if-none-match", "\"a\"")], NotModified),
            (&[("if-none-match", "W/\"a\"")], NotModified),
            (&[("if-none-match", " , W/\"x\" ,, \"a\"")], NotModified),
            (&[("if-none-match", "\"x,y\" ,, \"a\"")], NotModified),
            (&[("if-none-match", "x, \"a\"")], Proceed),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"x\"")], Proceed),
            (&[("if-modified-since", THEN)], NotModified),
            (&[("if-modified-since", AFTER)], NotModified),
            (&[("if-modified-since", BEFORE)], Proceed),
            (&[("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT")], NotModified),
            (&[("if-modified-since", "0")], Proceed),
            (&[("if-modified-since", THEN), ("if-modified-since", THEN)], Proceed),
            (&[("if-none-match", "\"x\""), ("if-modified-since", THEN)], Proceed),
            (&[("if-match", "\"x\""), ("if-none-match", "\"a\"")], Failed),
            (&[("if-match", "\"a\""), ("if-none-match", "\"a\"")], NotModified),
        ];
        for (fields, verdict) in cases {
            let found = evaluate(&headers(fields), &validators("\"a\""));
            assert_eq!(found, *verdict, "{fields:?}");
        }
        let weak = validators("W/\"a\"");
        assert_eq!(evaluate(&headers(&[("if-none-match", "\"a\"")]), &weak), NotModified);
        assert_eq!(evaluate(&headers(&[("if-match", "W/\"a\"")]), &weak), Failed);
    }

    #[test]
    fn a_range_holds_for_this_very_version() {
        for (condition, holds) in [
            ("\"a\"", true),
            ("\"x\"", false),
            ("W/\"a\"", false),
            ("\"a\", \"x\"", false),
            (THEN, true),
            (BEFORE, false),
            (AFTER, false),
            ("never", false),
        ] {
            let found = range_holds(&headers(&[("if-range", condition)]), &validators("\"a\""));
            assert_eq!(found, holds, "{condition}");
        }
        assert!(range_holds(&HeaderMap::new(), &validators("\"a\"")));
        // A second in the future is not over, however long this test takes.
        let text = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
        let modified = parse_http_date(&text).expect("a date");
        let mut headers = HeaderMap::new();
        headers.insert(IF_RANGE, text.parse().expect("a value"));
        let recent = Validators { modified, ..validators("\"a\"") };
        assert!(!range_holds(&headers, &recent), "a second that is not over");
    }
}
