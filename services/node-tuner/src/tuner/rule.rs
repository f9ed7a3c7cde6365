//! The value to write to a file, and the test of whether the file already has the wanted value. The
//! kernel shows some values differently from how they are written: with tabs between numbers,
//! leading zeros in masks, or brackets around the chosen word.

use crate::catalogue::{Rule, Value};
use crate::cpus::Cpus;
use crate::node::{banned, with_banned};

/// The content to write over `original`.
pub(super) fn desired(rule: Rule, wanted: &Value, original: &[u8]) -> Vec<u8> {
    let line = |text: String| (text + "\n").into_bytes();
    match (rule, wanted) {
        (Rule::AtLeast, Value::Number(wanted)) => {
            line(number(original).unwrap_or(0).max(*wanted).to_string())
        }
        (Rule::AtLeast, Value::Three(wanted)) => {
            let there = three(original).unwrap_or_default();
            let most = [0, 1, 2].map(|at| wanted[at].max(there[at]));
            line(Value::Three(most).text())
        }
        (Rule::Mask, Value::Cpus(cpus)) => line(cpus.mask()),
        (Rule::Line, Value::Cpus(cpus)) => with_banned(&text(original), cpus).into_bytes(),
        // i32 in native byte order (Documentation/power/pm_qos_interface.rst).
        (Rule::Held, Value::Number(wanted)) => {
            i32::try_from(*wanted).unwrap_or(i32::MAX).to_ne_bytes().to_vec()
        }
        (_, wanted) => line(wanted.text()),
    }
}

/// Whether a file has the wanted value. `written` is the last value that this program wrote.
pub(super) fn satisfied(rule: Rule, desired: &[u8], now: &[u8], written: Option<&[u8]>) -> bool {
    match rule {
        Rule::AtLeast => {
            // A higher value is acceptable if another program has set it, but not if it comes from
            // an earlier profile.
            let ours = written.is_some_and(|it| numbers(it) == numbers(now));
            if ours { numbers(now) == numbers(desired) } else { reaches(now, desired) }
        }
        Rule::Held => match (number_held(now), number_held(desired)) {
            (Some(now), Some(desired)) => now <= desired,
            _ => false,
        },
        Rule::Within => match (Cpus::from_list(&text(now)), Cpus::from_list(&text(desired))) {
            (Some(now), Some(desired)) => !now.is_empty() && now.within(&desired),
            _ => false,
        },
        _ => shown(rule, now) == shown(rule, desired),
    }
}

fn reaches(now: &[u8], desired: &[u8]) -> bool {
    match (numbers(now), numbers(desired)) {
        (Some(now), Some(desired)) => {
            now.len() == desired.len() && now.iter().zip(&desired).all(|(now, it)| now >= it)
        }
        _ => false,
    }
}

pub(super) fn shown(rule: Rule, content: &[u8]) -> String {
    let text = text(content);
    let list = |cpus: Cpus| if cpus.is_empty() { "none".to_owned() } else { cpus.list() };
    match rule {
        Rule::Choice => chosen(&text).to_owned(),
        Rule::Mask => Cpus::from_mask(&text).map_or(text, list),
        Rule::Line => list(banned(&text)),
        Rule::Held => number_held(content).map_or(text, |it| it.to_string()),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// The word in brackets, or the entire text without brackets.
fn chosen(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text.trim(), |(word, _)| word)
}

fn text(content: &[u8]) -> String {
    String::from_utf8_lossy(content).into_owned()
}

fn numbers(content: &[u8]) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> =
        text(content).split_whitespace().map(|it| it.parse().ok()).collect();
    numbers.filter(|it| !it.is_empty())
}

fn number(content: &[u8]) -> Option<u64> {
    numbers(content)?.first().copied()
}

fn three(content: &[u8]) -> Option<[u64; 3]> {
    numbers(content)?.try_into().ok()
}

fn number_held(content: &[u8]) -> Option<i32> {
    content.try_into().ok().map(i32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(rule: Rule, wanted: &Value, now: &str) -> bool {
        satisfied(rule, &desired(rule, wanted, now.as_bytes()), now.as_bytes(), None)
    }

    #[test]
    fn limits_are_never_lowered() {
        let wanted = Value::Number(4000);
        assert_eq!(desired(Rule::AtLeast, &wanted, b"1000\n"), b"4000\n");
        assert_eq!(desired(Rule::AtLeast, &wanted, b"5000\n"), b"5000\n");
        assert!(!fits(Rule::AtLeast, &wanted, "1000\n"));
        assert!(fits(Rule::AtLeast, &wanted, "5000\n"));
        let wanted = Value::Three([1, 20, 30]);
        assert_eq!(desired(Rule::AtLeast, &wanted, b"10\t11\t99\n"), b"10 20 99\n");
        assert!(!fits(Rule::AtLeast, &wanted, "10\t11\t99\n"));
        assert!(fits(Rule::AtLeast, &wanted, "10\t20\t99\n"));
    }

    #[test]
    fn a_limit_that_an_earlier_profile_raised_comes_down_again() {
        let desired = b"4000\n";
        assert!(!satisfied(Rule::AtLeast, desired, b"9000\n", Some(b"9000\n")));
        assert!(satisfied(Rule::AtLeast, desired, b"9001\n", Some(b"9000\n")));
        assert!(satisfied(Rule::AtLeast, desired, b"4000\n", Some(b"4000\n")));
        assert!(!satisfied(Rule::AtLeast, desired, b"3999\n", Some(b"4000\n")));
    }

    #[test]
    fn the_kernels_forms_are_understood() {
        let madvise = Value::Word("madvise".to_owned());
        assert!(fits(Rule::Choice, &madvise, "always [madvise] never\n"));
        assert!(!fits(Rule::Choice, &madvise, "[always] madvise never\n"));
        assert!(fits(Rule::Choice, &madvise, "madvise\n"));
        let cpus = Value::Cpus(Cpus::from_list("0-1").expect("a list"));
        assert!(fits(Rule::Mask, &cpus, "00000000,00000003\n"));
        assert!(!fits(Rule::Mask, &cpus, "1\n"));
        assert!(fits(Rule::Within, &cpus, "1\n"));
        assert!(!fits(Rule::Within, &cpus, "1-2\n"));
        assert!(!fits(Rule::Within, &cpus, "\n"));
        assert!(fits(Rule::Exact, &Value::Number(30), "30\n"));
        assert!(!fits(Rule::Exact, &Value::Number(30), "31\n"));
    }

    #[test]
    fn a_latency_is_four_bytes() {
        let wanted = Value::Number(20);
        let bytes = desired(Rule::Held, &wanted, b"");
        assert_eq!(bytes, 20i32.to_ne_bytes());
        assert_eq!(shown(Rule::Held, &bytes), "20");
        assert!(satisfied(Rule::Held, &bytes, &0i32.to_ne_bytes(), None));
        assert!(!satisfied(Rule::Held, &bytes, &2_000_000_000i32.to_ne_bytes(), None));
    }

    #[test]
    fn what_cannot_be_read_is_not_as_wanted() {
        for (rule, wanted) in [
            (Rule::AtLeast, Value::Number(1)),
            (Rule::Exact, Value::Number(1)),
            (Rule::Choice, Value::Word("never".to_owned())),
            (Rule::Held, Value::Number(1)),
            (Rule::Within, Value::Cpus(Cpus::from_list("0").expect("a list"))),
        ] {
            assert!(!fits(rule, &wanted, ""), "{rule:?}");
        }
    }
}
