use super::*;
use crate::profile::PROFILES;

#[test]
fn every_value_of_the_profiles_is_one_that_its_knob_takes() {
    for knob in knobs() {
        for (profile, value) in PROFILES.iter().zip(knob.values) {
            if !value.is_empty() {
                let parsed = knob.kind.parse(value);
                assert!(parsed.is_ok(), "{} of {profile}: {parsed:?}", knob.name);
            }
        }
    }
}

#[test]
fn every_knob_says_what_why_where_and_at_what_risk() {
    for knob in knobs() {
        for words in [knob.name, knob.summary, knob.reason, knob.source, knob.risk] {
            assert!(!words.is_empty(), "{}", knob.name);
            // Cells of a table in Markdown.
            assert!(!words.contains(['|', '\n']) && !words.contains("  "), "{words}");
        }
    }
}

#[test]
fn names_are_known_once() {
    let mut names: Vec<_> = knobs().map(|knob| knob.name).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

#[test]
fn a_larger_profile_never_wants_less() {
    for knob in knobs().filter(|knob| knob.rule == Rule::AtLeast) {
        let numbers =
            knob.values.iter().filter_map(|it| it.split(' ').next_back()?.parse::<u64>().ok());
        assert!(numbers.is_sorted(), "{}", knob.name);
    }
}

#[test]
fn misspelt_names_have_close_ones() {
    for (wrong, right) in [
        ("net.core.netdev_max_backlogs", "net.core.netdev_max_backlog"),
        ("netdev_max_backlog", "net.core.netdev_max_backlog"),
        ("fs.filemax", "fs.file-max"),
        ("irq.afinity", "irq.affinity"),
    ] {
        assert_eq!(close(wrong).first(), Some(&right), "{wrong}");
    }
    assert!(close("xyz").is_empty());
}
