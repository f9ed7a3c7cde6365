//! The table as `docs/conformance.md` shows it.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::case::{Case, Level};

/// How many cases there are of each section and level.
pub(crate) fn sections(cases: &[Case]) -> String {
    let mut counts: BTreeMap<Vec<u32>, (&str, [usize; 3])> = BTreeMap::new();
    for case in cases {
        let key = case.section.split([' ', '.']).map(|n| n.parse().expect("a number")).collect();
        let (_, levels) = counts.entry(key).or_insert((case.section, [0; 3]));
        levels[match case.level {
            Level::Must => 0,
            Level::Should => 1,
            Level::May => 2,
        }] += 1;
    }
    let mut text = "| RFC and section | MUST | SHOULD | MAY |\n|---|---|---|---|\n".to_owned();
    let mut sums = [0; 3];
    for (section, levels) in counts.values() {
        let (rfc, section) = section.split_once(' ').expect("RFC and section");
        writeln!(text, "| {rfc}, {section} | {} |", levels.map(|n| n.to_string()).join(" | "))
            .expect("text");
        sums = std::array::from_fn(|i| sums[i] + levels[i]);
    }
    writeln!(text, "| all: {} | {} |", cases.len(), sums.map(|n| n.to_string()).join(" | "))
        .expect("text");
    text
}

/// The cases where a SHOULD is not followed.
pub(crate) fn departures(cases: &[Case]) -> String {
    let mut text = "| RFC and section | what happens instead | why |\n|---|---|---|\n".to_owned();
    for case in cases {
        let Some(reason) = case.departs else { continue };
        assert_eq!(case.level, Level::Should, "only a SHOULD may be departed from: {}", case.what);
        let (rfc, section) = case.section.split_once(' ').expect("RFC and section");
        writeln!(text, "| {rfc}, {section} | {} | {reason} |", case.what).expect("text");
    }
    text
}
