//! The catalogue of all settings: where each setting belongs, its values in the profiles, and the
//! reasons for these values.

mod elsewhere;
mod host;
mod pod;
mod value;

use serde::Serialize;

pub(crate) use pod::{Pods, Role};
pub(crate) use value::{Kind, Value};

/// Values of web-10k, web-100k and web-1m. Empty means unchanged.
pub(crate) type Values = [&'static str; 3];

/// No profile sets the value, because it depends on the operator's needs.
pub(crate) const CHOSEN: Values = ["", "", ""];

pub(crate) const fn all(value: &'static str) -> Values {
    [value, value, value]
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) rule: Rule,
    pub(crate) place: Place,
    pub(crate) values: Values,
    pub(crate) summary: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) source: &'static str,
    pub(crate) risk: &'static str,
}

/// How a file is compared with the desired value and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A limit that is never lowered.
    AtLeast,
    Exact,
    /// The word in brackets of `always [madvise] never`, or the only word.
    Choice,
    Mask,
    /// A CPU list that must contain only wanted CPUs.
    Within,
    /// One line of a file, whose other lines are kept.
    Line,
    /// Active while the file is open.
    Held,
    Shown,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Sysctl,
    File(&'static str),
    Receiving(&'static str),
    Sending(&'static str),
    Interrupts,
    Irqbalance,
    Governors,
    Pod(Pods),
    Kubelet(&'static str),
    Containerd,
    /// A word of the kernel's command line, checked by a sysctl.
    Boot(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Class {
    Host,
    Pod,
    Kubelet,
    Runtime,
    Boot,
}

impl Class {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Class::Host => "host",
            Class::Pod => "pod",
            Class::Kubelet => "kubelet",
            Class::Runtime => "runtime",
            Class::Boot => "boot",
        }
    }
}

impl Knob {
    pub(crate) fn class(&self) -> Class {
        match self.place {
            Place::Pod(_) => Class::Pod,
            Place::Kubelet(_) => Class::Kubelet,
            Place::Containerd => Class::Runtime,
            Place::Boot(_) => Class::Boot,
            _ => Class::Host,
        }
    }
}

pub(crate) fn knobs() -> impl Iterator<Item = &'static Knob> {
    let host = host::LIMITS.iter().chain(host::NETWORK).chain(host::CPUS);
    host.chain(pod::KNOBS).chain(elsewhere::KNOBS)
}

pub(crate) fn find(name: &str) -> Option<&'static Knob> {
    knobs().find(|knob| knob.name == name)
}

pub(crate) fn close(name: &str) -> Vec<&'static str> {
    let end = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    // Users may omit the part before the last dot.
    let likeness = |known: &str| {
        strsim::jaro_winkler(name, known).max(strsim::jaro_winkler(&end(name), &end(known)) - 0.01)
    };
    let mut found: Vec<_> = knobs().map(|knob| (likeness(knob.name), knob.name)).collect();
    found.retain(|(likeness, _)| *likeness > 0.88);
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
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
                // Cells of a Markdown table.
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
}
