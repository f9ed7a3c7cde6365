//! The Range header (RFC 9110 section 14).

use std::ops::Range;

/// Maximum number of ranges per request, and maximum number of ranges that may overlap with an
/// earlier range. Section 14.2 advises rejecting requests with more ranges, because each range
/// costs the server more than the client.
const MAX_RANGES: usize = 16;
const MAX_OVERLAPS: usize = 2;

/// Ranges with a smaller gap are merged, because the head of another part would be longer than the
/// gap (section 15.3.7.2).
const GAP: u64 = 80;

/// Selected bytes of a representation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The entire representation: there is no range, or an unsupported one (section 14.2).
    Whole,
    /// Non-empty ranges without overlaps, in the order of the request.
    Parts(Vec<Range<u64>>),
    /// No bytes: every range is beyond the end, or there are too many ranges (section 15.5.17).
    Refused,
}

pub(crate) fn select(value: &[u8], length: u64) -> Selection {
    let Some(specs) = parse(value) else { return Selection::Whole };
    if specs.len() > MAX_RANGES {
        return Selection::Refused;
    }
    // The suffix of an empty representation is the entire representation, which Content-Range
    // cannot express.
    if length == 0 && specs.iter().any(|spec| matches!(spec, Spec::Last(1..))) {
        return Selection::Whole;
    }
    let wanted: Vec<_> = specs.iter().filter_map(|spec| spec.within(length)).collect();
    if wanted.is_empty() || overlaps(&wanted) > MAX_OVERLAPS {
        return Selection::Refused;
    }
    Selection::Parts(coalesce(wanted))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spec {
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Spec {
    fn within(self, length: u64) -> Option<Range<u64>> {
        let range = match self {
            Spec::From(first, None) => first..length,
            Spec::From(first, Some(last)) => first..length.min(last.saturating_add(1)),
            Spec::Last(count) => length.saturating_sub(count)..length,
        };
        (!range.is_empty()).then_some(range)
    }
}

/// `None` for another unit or invalid syntax (section 14.1.2).
fn parse(value: &[u8]) -> Option<Vec<Spec>> {
    let (unit, set) = std::str::from_utf8(value).ok()?.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    // A list may have empty elements (section 5.6.1.2).
    let elements = set.split(',').map(|one| one.trim_matches([' ', '\t']));
    let specs: Option<Vec<_>> = elements.filter(|one| !one.is_empty()).map(spec).collect();
    specs.filter(|specs| !specs.is_empty())
}

fn spec(text: &str) -> Option<Spec> {
    let (first, last) = text.split_once('-')?;
    Some(match (first, last) {
        ("", count) => Spec::Last(number(count)?),
        (first, "") => Spec::From(number(first)?, None),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Spec::From(first, Some(last)))?
        }
    })
}

/// Parses digits only. A number that is too large to parse is beyond the end of any file.
fn number(digits: &str) -> Option<u64> {
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(u64::MAX))
}

fn overlaps(ranges: &[Range<u64>]) -> usize {
    let meets = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
    let overlap = |&index: &usize| {
        let (before, this) = (&ranges[..index], &ranges[index]);
        before.iter().any(|one| meets(one, this))
    };
    (1..ranges.len()).filter(overlap).count()
}

fn coalesce(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for mut range in ranges {
        let mut place = None;
        let mut index = 0;
        while index < joined.len() {
            let other = &joined[index];
            if range.start <= other.end.saturating_add(GAP)
                && other.start <= range.end.saturating_add(GAP)
            {
                range = range.start.min(other.start)..range.end.max(other.end);
                joined.remove(index);
                place = Some(place.map_or(index, |first: usize| first.min(index)));
                // A range that has grown may overlap with an earlier one.
                index = 0;
            } else {
                index += 1;
            }
        }
        joined.insert(place.unwrap_or(joined.len()), range);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ranges: impl IntoIterator<Item = (u64, u64)>) -> Selection {
        Selection::Parts(ranges.into_iter().map(|(start, end)| start..end).collect())
    }

    #[test]
    fn one_range_is_cut_at_the_end() {
        for (value, start, end) in [
            ("bytes=0-0", 0, 1),
            ("bytes=0-499", 0, 500),
            ("bytes=500-", 500, 1000),
            ("bytes=-1", 999, 1000),
            ("bytes=-5000", 0, 1000),
            ("bytes=999-99999999999999999999999", 999, 1000),
            ("BYTES=1-2", 1, 3),
            ("bytes= , 1-2\t,", 1, 3),
            ("bytes=2000-,1-2", 1, 3),
        ] {
            assert_eq!(select(value.as_bytes(), 1000), parts([(start, end)]), "{value}");
        }
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=1",
            "bytes=2-1",
            "bytes=a-b",
            "bytes=1-2,x",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1 - 2",
            "bytes 0-1/2",
            "lines=1-2",
            "bytes=--1",
            "bytes=1-2-3",
            "bytes=²-",
        ] {
            assert_eq!(select(value.as_bytes(), 1000), Selection::Whole, "{value}");
        }
        assert_eq!(select(b"bytes=\xff-", 1000), Selection::Whole);
    }

    #[test]
    fn what_is_beyond_the_end_is_refused() {
        for value in ["bytes=1000-", "bytes=1000-2000", "bytes=-0", "bytes=5000-,-0"] {
            assert_eq!(select(value.as_bytes(), 1000), Selection::Refused, "{value}");
        }
        assert_eq!(select(b"bytes=0-", 0), Selection::Refused);
        assert_eq!(select(b"bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn near_ranges_are_joined_in_the_place_of_the_first() {
        assert_eq!(select(b"bytes=0-9,500-509", 1000), parts([(0, 10), (500, 510)]));
        assert_eq!(select(b"bytes=500-509,0-9", 1000), parts([(500, 510), (0, 10)]));
        assert_eq!(select(b"bytes=0-9,20-29", 1000), parts([(0, 30)]));
        assert_eq!(select(b"bytes=900-,0-9,850-950", 1000), parts([(850, 1000), (0, 10)]));
        assert_eq!(select(b"bytes=0-9,200-209,5-204", 1000), parts([(0, 210)]));
    }

    #[test]
    fn abuse_is_refused() {
        let many: Vec<_> = (0..17).map(|n| format!("{}-{}", 200 * n, 200 * n + 1)).collect();
        let value = format!("bytes={}", many.join(","));
        assert_eq!(select(value.as_bytes(), 10_000), Selection::Refused);
        assert_eq!(select(b"bytes=0-,0-,0-,0-", 10_000), Selection::Refused);
        assert_eq!(select(b"bytes=0-,0-,0-", 10_000), parts([(0, 10_000)]));
    }

    /// All triples of ranges on a grid: requested bytes are sent once, with few additional bytes.
    #[test]
    fn parts_are_sound() {
        let marks = [0, 1, 60, 150, 151, 400];
        let one = marks.iter().flat_map(|&a| marks.iter().map(move |&b| (a, b)));
        let one: Vec<(u64, u64)> = one.filter(|(a, b)| a <= b).collect();
        for (a, b, c) in one.iter().flat_map(|a| {
            one.iter().flat_map(|b| one.iter().map(|c| (*a, *b, *c)).collect::<Vec<_>>())
        }) {
            let asked = [a, b, c];
            let value = asked.map(|(first, last)| format!("{first}-{last}")).join(",");
            let Selection::Parts(parts) = select(format!("bytes={value}").as_bytes(), 300) else {
                assert!(asked.iter().all(|(first, _)| *first >= 300), "{value}");
                continue;
            };
            let is_asked =
                |at: u64| asked.iter().any(|(first, last)| (*first..=*last).contains(&at));
            for (index, part) in parts.iter().enumerate() {
                assert!(!part.is_empty() && part.end <= 300, "{value}: {parts:?}");
                assert!(is_asked(part.start) && is_asked(part.end - 1), "{value}: {parts:?}");
                let apart = |other: &Range<u64>| {
                    other.end + GAP < part.start || part.end + GAP < other.start
                };
                assert!(parts[..index].iter().all(apart), "{value}: {parts:?}");
            }
            let is_sent = |at: u64| parts.iter().any(|part| part.contains(&at));
            assert!((0..300).all(|at| !is_asked(at) || is_sent(at)), "{value}: {parts:?}");
        }
    }
}
