//! An agent's state, shared by its loop, its API client and its port.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use super::changes::Changes;
use crate::catalogue::Class;
use crate::kubernetes::Message;
use crate::proof::NodeProof;
use crate::report::{Report, State};
use crate::settings::Mode;

/// API server requests with separate failure counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Pods,
    Events,
    Taint,
    DeletionCosts,
    DaemonSet,
}

impl Operation {
    pub(crate) const ALL: [Operation; 5] = [
        Operation::Pods,
        Operation::Events,
        Operation::Taint,
        Operation::DeletionCosts,
        Operation::DaemonSet,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Operation::Pods => "pods",
            Operation::Events => "events",
            Operation::Taint => "taint",
            Operation::DeletionCosts => "deletion-costs",
            Operation::DaemonSet => "daemonset",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) report: Report,
    /// Reason why nothing was changed, or why not everything was restored.
    pub(crate) error: Option<String>,
    /// Settings in the journal after the pass.
    pub(crate) journalled: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) drift: u64,
    pub(crate) repairs: u64,
    pub(crate) failures: u64,
}

#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) mode: Mode,
    pub(crate) profile: String,
    /// `None` before the first pass.
    pub(crate) pass: Option<Pass>,
    /// Seconds since 1970.
    pub(crate) last_pass: f64,
    pub(crate) failed_passes: u64,
    pub(crate) knobs: BTreeMap<&'static str, Counts>,
    /// The pods' proofs, or the reason why there are no proofs.
    pub(crate) proof: Result<NodeProof, String>,
    pub(crate) api_errors: BTreeMap<Operation, u64>,
    /// The reason why a restored node may still have the taint.
    pub(crate) tainted: Option<String>,
    /// Events not yet sent to the API server.
    pub(crate) messages: Vec<Message>,
}

/// The part of the state that one lock protects. The lock is held only briefly.
#[derive(Debug)]
pub(crate) struct Status(Mutex<Facts>);

impl Status {
    pub(crate) fn new(mode: Mode, profile: &str, proof: &str) -> Self {
        Status(Mutex::new(Facts {
            mode,
            profile: profile.to_owned(),
            pass: None,
            last_pass: 0.0,
            failed_passes: 0,
            knobs: BTreeMap::new(),
            proof: Err(proof.to_owned()),
            api_errors: Operation::ALL.map(|it| (it, 0)).into(),
            tainted: None,
            messages: Vec::new(),
        }))
    }

    pub(crate) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Facts {
    pub(crate) fn passed(&mut self, pass: Pass, changes: &Changes) {
        // All series exist from the start, with the value 0.
        for row in pass.report.knobs.iter().filter(|row| row.class == Class::Host) {
            self.knobs.entry(row.name).or_default();
        }
        for row in &changes.drifted {
            self.knobs.entry(row.name).or_default().drift += 1;
        }
        for row in &changes.repaired {
            self.knobs.entry(row.name).or_default().repairs += 1;
        }
        for row in &changes.failed {
            self.knobs.entry(row.name).or_default().failures += 1;
        }
        self.failed_passes += u64::from(pass.error.is_some());
        self.last_pass =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        self.pass = Some(pass);
    }

    /// Queues events for the API server; a new event replaces an equal older event.
    pub(crate) fn tell(&mut self, messages: Vec<Message>) {
        for message in messages {
            self.messages
                .retain(|it| (it.reason, &it.subject) != (message.reason, &message.subject));
            self.messages.push(message);
        }
    }

    /// `None` before the first pass.
    pub(crate) fn prepared(&self) -> Option<bool> {
        self.pass.as_ref().map(|pass| pass.error.is_none() && pass.report.prepared())
    }

    /// `Err` describes what is missing.
    pub(crate) fn ready(&self) -> Result<(), String> {
        let Some(pass) = &self.pass else { return Err("the first pass has not ended".to_owned()) };
        if let Some(error) = &pass.error {
            return Err(error.clone());
        }
        match self.mode {
            Mode::Audit => Ok(()),
            Mode::Restore if pass.journalled > 0 => {
                Err(format!("{} settings are still in the journal", pass.journalled))
            }
            // The agents may be deleted next, together with their permission to change nodes.
            Mode::Restore => match &self.tainted {
                Some(why) => Err(format!("the node may still have the taint: {why}")),
                None => Ok(()),
            },
            Mode::Apply if pass.report.prepared() => Ok(()),
            Mode::Apply => Err(unprepared(&pass.report)),
        }
    }

    /// The number of tuned settings that an agent in audit mode found.
    pub(crate) fn left_tuned(&self) -> Option<usize> {
        let journalled = self.pass.as_ref().map_or(0, |pass| pass.journalled);
        (self.mode == Mode::Audit && journalled > 0).then_some(journalled)
    }
}

fn unprepared(report: &Report) -> String {
    let wrong = report.knobs.iter().filter(|it| matches!(it.state, State::Differs | State::Failed));
    let mut names: Vec<&str> = wrong.map(|row| row.name).collect();
    names.dedup();
    let (differ, failed) = (report.differs(), report.count(State::Failed));
    format!("{differ} settings differ, {failed} were refused: {}", names.join(", "))
}

impl Mode {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Mode::Audit => "audit",
            Mode::Apply => "apply",
            Mode::Restore => "restore",
        }
    }
}
