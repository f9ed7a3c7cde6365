//! One pass over all settings, which reads and writes files.

use tracing::{info, warn};

use super::changes::{Changes, Memory};
use super::status::Pass;
use crate::catalogue::Class;
use crate::kubernetes::{Message, Reason};
use crate::report::{Report, Row};
use crate::settings::{Drift, Mode, Settings};
use crate::tuner::Tuner;

#[derive(Debug)]
pub(crate) struct Passes {
    tuner: Tuner,
    mode: Mode,
    repair: bool,
    memory: Memory,
    to_restore: bool,
    notes: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) pass: Pass,
    pub(crate) changes: Changes,
    pub(crate) messages: Vec<Message>,
}

impl Passes {
    /// Continues the work of an earlier agent on the node.
    pub(crate) fn new(settings: &Settings) -> Self {
        let tuner = Tuner::new(settings);
        Passes {
            memory: Memory::new(tuner.written_before()),
            tuner,
            mode: settings.agent.mode,
            repair: settings.agent.drift == Drift::Repair,
            to_restore: true,
            notes: Vec::new(),
        }
    }

    /// Makes every further pass restore the node.
    pub(crate) fn restore_from_now_on(&mut self) {
        self.mode = Mode::Restore;
    }

    pub(crate) fn next(&mut self) -> Outcome {
        match self.mode {
            Mode::Audit => {
                let report = self.tuner.audit();
                self.outcome(report, None)
            }
            Mode::Apply => self.apply(),
            Mode::Restore => self.restore(),
        }
    }

    fn apply(&mut self) -> Outcome {
        if !self.repair {
            self.tuner.leave_alone(self.memory.reached());
        }
        match self.tuner.apply(true) {
            Ok(report) => self.outcome(report, None),
            Err(error) => {
                let report = self.tuner.audit();
                self.outcome(report, Some(format!("nothing was changed: {error}")))
            }
        }
    }

    fn restore(&mut self) -> Outcome {
        let journalled = self.tuner.journalled();
        if !self.to_restore && journalled == 0 {
            let report = self.tuner.audit();
            return self.found(report, None);
        }
        let before = self.tuner.audit();
        let restored = self.tuner.restore();
        let after = self.tuner.audit();
        log_restored(&before, &after);
        let error = match restored {
            Err(error) => Some(format!("nothing was restored: {error}")),
            Ok(restored) if restored.failed.is_empty() => None,
            Ok(restored) => Some(format!("not restored: {}", restored.failed.join("; "))),
        };
        self.to_restore = error.is_some();
        let mut outcome = self.found(after, error);
        if outcome.pass.error.is_none() && journalled > 0 {
            let words = format!("{journalled} settings have their original values again");
            info!("{words}");
            let (reason, subject) = (Reason::NodeRestored, String::new());
            outcome.messages.push(Message { reason, subject, words });
        }
        outcome
    }

    fn outcome(&mut self, report: Report, error: Option<String>) -> Outcome {
        let applied = self.mode == Mode::Apply && error.is_none();
        if report.notes != self.notes {
            report.notes.iter().for_each(|note| warn!("{note}"));
            self.notes.clone_from(&report.notes);
        }
        let changes = self.memory.take(&report, applied);
        log(&changes);
        let messages = changes.messages(&report.profile);
        Outcome { changes, messages, ..self.found(report, error) }
    }

    fn found(&self, report: Report, error: Option<String>) -> Outcome {
        let error = error.or_else(|| Some(self.tuner.unreadable_journal()?.to_string()));
        if let Some(error) = &error {
            warn!("pass: {error}");
        }
        Outcome {
            pass: Pass { journalled: self.tuner.journalled(), report, error },
            changes: Changes::default(),
            messages: Vec::new(),
        }
    }
}

fn log(changes: &Changes) {
    for Row { name, target, wanted, actual, changed_from, .. } in &changes.drifted {
        let found = changed_from.as_ref().or(actual.as_ref());
        warn!(knob = name, target, from = wanted, to = found, "drifted");
    }
    for row in &changes.written {
        let reason = match (changes.repaired.contains(row), row.leaving) {
            (true, _) => "it had drifted",
            (false, false) => "the profile wants it",
            (false, true) => row.reason.as_str(),
        };
        let Row { name, target, wanted, actual, changed_from, .. } = row;
        let to = actual.as_ref().unwrap_or(wanted);
        info!(knob = name, target, from = changed_from, to, reason, "written");
    }
    for Row { name, target, wanted, actual, reason, .. } in &changes.newly_failed {
        warn!(knob = name, target, from = actual, to = wanted, reason, "refused");
    }
}

fn log_restored(before: &Report, after: &Report) {
    for row in before.knobs.iter().filter(|row| row.class == Class::Host) {
        let same = |it: &&Row| (it.name, &it.target) == (row.name, &row.target);
        // A setting found only in the journal was restored to its original value.
        let now = after.knobs.iter().find(same).map_or(Some(&row.wanted), |it| it.actual.as_ref());
        let Row { name, target, actual, .. } = row;
        if actual.as_ref() != now {
            let reason = "the original value is restored";
            info!(knob = name, target, from = actual, to = now, reason, "written");
        }
    }
}
