//! Detects changes since earlier passes: drift, repairs and failures.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue::{self, Rule};
use crate::kubernetes::{Message, Reason};
use crate::report::{Report, Row, State};
use crate::tuner::Setting;

/// Maximum number of settings named in an event. Further settings are only counted.
const NAMED: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    desired: BTreeSet<Setting>,
    /// Settings that have drifted and do not match the profile yet.
    drifted: BTreeSet<Setting>,
    /// Settings that could not be written, with the reason.
    failed: BTreeMap<Setting, String>,
    prepared: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Settings that matched the profile earlier, but not at the start of this pass.
    pub(crate) drifted: Vec<Row>,
    pub(crate) repaired: Vec<Row>,
    pub(crate) written: Vec<Row>,
    /// Settings that this pass could not write.
    pub(crate) failed: Vec<Row>,
    /// Failed settings that did not fail before, or failed for another reason.
    pub(crate) newly_failed: Vec<Row>,
    pub(crate) prepared: bool,
}

impl Memory {
    pub(crate) fn new(desired: BTreeSet<Setting>) -> Self {
        Memory { desired, ..Memory::default() }
    }

    /// Settings that matched the profile. If one of them differs later, it has drifted.
    ///
    /// Excludes settings that last only while a file is open, because a new agent must open the
    /// file again.
    pub(crate) fn reached(&self) -> BTreeSet<Setting> {
        let held = |name| catalogue::find(name).is_some_and(|knob| knob.rule == Rule::Held);
        self.desired.union(&self.drifted).filter(|(name, _)| !held(name)).cloned().collect()
    }

    /// Adds the result of a pass. `applied`: whether the pass was allowed to write.
    pub(crate) fn take(&mut self, report: &Report, applied: bool) -> Changes {
        let mut changes = Changes::default();
        for row in &report.knobs {
            self.take_row(row, &mut changes);
        }
        let prepared = applied && report.prepared();
        changes.prepared = prepared && !self.prepared;
        self.prepared = prepared;
        changes
    }

    fn take_row(&mut self, row: &Row, changes: &mut Changes) {
        let setting = (row.name, row.target.clone());
        let was_desired = self.desired.contains(&setting);
        let written = row.changed_from.is_some();
        let other = written || matches!(row.state, State::Differs | State::Failed);
        if was_desired && other && !row.leaving {
            changes.drifted.push(row.clone());
            self.drifted.insert(setting.clone());
            if written {
                changes.repaired.push(row.clone());
            }
        }
        if written {
            changes.written.push(row.clone());
        }
        if row.state == State::Ok {
            self.drifted.remove(&setting);
            self.desired.insert(setting.clone());
        } else {
            self.desired.remove(&setting);
        }
        if row.state == State::Failed {
            changes.failed.push(row.clone());
            let before = self.failed.insert(setting, row.reason.clone());
            if before.as_deref() != Some(&row.reason) {
                changes.newly_failed.push(row.clone());
            }
        } else {
            self.failed.remove(&setting);
        }
    }
}

impl Changes {
    /// Node events: one per setting, however many files it has.
    pub(crate) fn messages(&self, profile: &str) -> Vec<Message> {
        let mut messages = Vec::new();
        let drifted = |row: &Row| {
            let found = row.changed_from.as_deref().or(row.actual.as_deref());
            format!("{} instead of {}", found.unwrap_or("unreadable"), row.wanted)
        };
        by_knob(&mut messages, Reason::KnobDrifted, &self.drifted, drifted);
        by_knob(&mut messages, Reason::KnobRepaired, &self.repaired, |row| {
            format!("{} again", row.actual.as_deref().unwrap_or(&row.wanted))
        });
        by_knob(&mut messages, Reason::KnobFailed, &self.newly_failed, |row| row.reason.clone());
        if self.prepared {
            let words = format!("the node matches profile {profile}");
            messages.push(Message { reason: Reason::NodePrepared, subject: String::new(), words });
        }
        messages
    }
}

fn by_knob(
    messages: &mut Vec<Message>,
    reason: Reason,
    rows: &[Row],
    words: impl Fn(&Row) -> String,
) {
    let mut knobs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        let target =
            if row.target.is_empty() { String::new() } else { format!("{}: ", row.target) };
        knobs.entry(row.name).or_default().push(format!("{target}{}", words(row)));
    }
    for (knob, all) in knobs {
        let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        let more = match all.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let words = format!("{knob}: {named}{more}");
        messages.push(Message { reason, subject: knob.to_owned(), words });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Class;

    fn row(target: &str, actual: &str, state: State, changed_from: Option<&str>) -> Row {
        Row {
            name: "net.rps_cpus",
            class: Class::Host,
            target: target.to_owned(),
            wanted: "3".to_owned(),
            actual: Some(actual.to_owned()),
            state,
            reason: if state == State::Failed { "refused".to_owned() } else { String::new() },
            changed_from: changed_from.map(str::to_owned),
            leaving: false,
        }
    }

    fn report(knobs: Vec<Row>) -> Report {
        Report { profile: "web-10k".to_owned(), knobs, notes: Vec::new() }
    }

    fn told(changes: &Changes) -> Vec<String> {
        let messages = changes.messages("web-10k");
        messages.into_iter().map(|it| format!("{:?} {}", it.reason, it.words)).collect()
    }

    #[test]
    fn what_was_never_as_desired_does_not_drift() {
        let mut memory = Memory::default();
        let first = memory.take(&report(vec![row("rx-0", "3", State::Ok, Some("0"))]), true);
        assert_eq!((first.written.len(), first.drifted.len()), (1, 0));
        assert_eq!(told(&first), ["NodePrepared the node matches profile web-10k"]);
        let same = memory.take(&report(vec![row("rx-0", "3", State::Ok, None)]), true);
        assert_eq!(same, Changes::default());
    }

    #[test]
    fn drift_is_told_once_and_its_repair_with_it() {
        let mut memory = Memory::default();
        memory.take(&report(vec![row("rx-0", "3", State::Ok, None)]), true);
        let repaired = memory.take(&report(vec![row("rx-0", "3", State::Ok, Some("1"))]), true);
        let expected = [
            "KnobDrifted net.rps_cpus: rx-0: 1 instead of 3",
            "KnobRepaired net.rps_cpus: rx-0: 3 again",
        ];
        assert_eq!(told(&repaired), expected);
        let left = report(vec![row("rx-0", "1", State::Differs, None)]);
        assert_eq!(told(&memory.take(&left, true)), expected[..1]);
        assert_eq!(memory.take(&left, true), Changes::default());
        // Another process has corrected the setting.
        let right = memory.take(&report(vec![row("rx-0", "3", State::Ok, None)]), true);
        assert_eq!(told(&right), ["NodePrepared the node matches profile web-10k"]);
    }

    #[test]
    fn what_has_drifted_is_still_known_when_it_has_drifted_further() {
        let mut memory = Memory::default();
        assert!(memory.reached().is_empty());
        let latency = Row { name: "cpu.dma_latency_us", ..row("", "3", State::Ok, None) };
        memory.take(&report(vec![row("rx-0", "3", State::Ok, None), latency]), true);
        let known = BTreeSet::from([("net.rps_cpus", "rx-0".to_owned())]);
        assert_eq!(memory.reached(), known);
        memory.take(&report(vec![row("rx-0", "1", State::Differs, None)]), true);
        assert_eq!(memory.reached(), known);
    }

    #[test]
    fn a_note_hides_no_drift_and_what_leaves_is_none() {
        let noted = |row| Row { reason: "restart irqbalance".to_owned(), ..row };
        let mut memory = Memory::default();
        memory.take(&report(vec![noted(row("", "3", State::Ok, None))]), true);
        let repaired = report(vec![noted(row("", "3", State::Ok, Some("1")))]);
        let changes = memory.take(&repaired, true);
        assert_eq!((changes.drifted.len(), changes.repaired.len()), (1, 1));
        let leaves = Row { leaving: true, ..noted(row("", "0", State::Ok, Some("3"))) };
        let changes = memory.take(&report(vec![leaves]), true);
        assert_eq!((changes.written.len(), changes.drifted.len()), (1, 0));
    }

    #[test]
    fn many_files_of_a_knob_are_one_event() {
        let mut memory = Memory::default();
        let all = |actual, state, from| {
            let targets = ["rx-0", "rx-1", "rx-2", "rx-3", "rx-4"];
            report(targets.map(|it| row(it, actual, state, from)).into())
        };
        memory.take(&all("3", State::Ok, None), false);
        let drifted = memory.take(&all("0", State::Differs, None), false);
        let one = "KnobDrifted net.rps_cpus: rx-0: 0 instead of 3; rx-1: 0 instead of 3; \
                   rx-2: 0 instead of 3; and 2 more";
        assert_eq!(told(&drifted), [one]);
    }

    #[test]
    fn a_failure_counts_each_time_and_is_told_once() {
        let mut memory = Memory::default();
        let refused = report(vec![row("rx-0", "0", State::Failed, None)]);
        let first = memory.take(&refused, true);
        assert_eq!(told(&first), ["KnobFailed net.rps_cpus: rx-0: refused"]);
        let second = memory.take(&refused, true);
        assert_eq!((second.failed.len(), told(&second).len()), (1, 0));
    }
}
