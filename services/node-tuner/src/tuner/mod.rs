//! Tunes one node with its profile and its journal.

mod aims;
mod check;
mod elsewhere;
mod journal;
mod judge;
mod rule;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use crate::catalogue::{self, Rule};
use crate::kubelet::Kubelet;
use crate::node::{self, Node};
use crate::profile::Profile;
use crate::report::{Report, Row, State};
use crate::settings::Settings;
use crate::tree::Tree;
use aims::Sight;
use check::check;
use journal::{Entry, Journal, Store};
use judge::{Judged, put_back};

#[derive(Debug)]
pub(crate) struct Tuner {
    settings: Settings,
    profile: Profile,
    tree: Tree,
    store: Store,
    kubelet: Option<Kubelet>,
    /// Open files by path, for settings that last only while their file is open.
    held: Vec<(String, File)>,
    /// Settings left unchanged although they differ.
    left_alone: BTreeSet<Setting>,
}

pub(crate) type Setting = (&'static str, String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) settings: usize,
    /// Settings that could not be written, with the reason. The journal stays as long as any
    /// setting failed.
    pub(crate) failed: Vec<String>,
}

impl Tuner {
    /// Creates a tuner with the root, the profile and the journal of these settings. Accesses no
    /// files.
    pub(crate) fn new(settings: &Settings) -> Self {
        Tuner {
            profile: Profile::new(&settings.profile, &settings.knobs)
                .expect("the settings were validated"),
            tree: Tree::new(&settings.root),
            store: Store::new(&settings.journal),
            kubelet: settings.kubelet.clone(),
            settings: settings.clone(),
            held: Vec::new(),
            left_alone: BTreeSet::new(),
        }
    }

    /// Determines the state of every setting. Changes nothing.
    pub(crate) fn audit(&self) -> Report {
        let journal = self.journal().ok().flatten().unwrap_or_default();
        let node = Node::look(&self.tree, &self.settings);
        let sight = self.sight(&node);
        let judged = sight.judge_all(&journal);
        let leaving = self.leaving(&journal, &judged);
        self.report(&sight, judged, leaving)
    }

    /// Records originals and new values, then writes the settings that differ. Settings that the
    /// profile no longer contains are restored to their original values. Written rows have
    /// `changed_from`.
    ///
    /// With `hold`, settings that last only while a file is open are held until `restore` or until
    /// the process exits. Errors occur before any change: the journal could not be written, or
    /// another process holds the lock.
    pub(crate) fn apply(&mut self, hold: bool) -> io::Result<Report> {
        let _lock = self.store.lock()?;
        let boot = node::boot(&self.tree);
        let before = self.store.read(&boot)?;
        let mut journal = before.clone().unwrap_or_else(|| Journal::new(&boot));
        self.settle(&mut journal);
        let node = Node::look(&self.tree, &self.settings);
        let mut judged = self.sight(&node).judge_all(&journal);
        for judged in judged.iter_mut().filter(|it| !hold && it.knob.rule == Rule::Held) {
            left_to_the_agent(judged);
        }
        let leaving = self.leaving(&journal, &judged);

        self.profile.name.clone_into(&mut journal.profile);
        self.note_changes(&mut journal, &judged);
        if !journal.settings.is_empty() && before.as_ref() != Some(&journal) {
            self.store.write(&journal)?;
        }
        let noted = journal.clone();
        let mut leaving = leaving;
        self.put_back_leaving(&mut journal, &mut judged, &mut leaving);
        for judged in &mut judged {
            self.change(judged, &mut journal);
        }
        self.note_end(&journal, &noted, before.is_some());
        Ok(self.report(&self.sight(&node), judged, leaving))
    }

    pub(crate) fn leave_alone(&mut self, settings: BTreeSet<Setting>) {
        self.left_alone = settings;
    }

    /// Settings that an earlier process has written and that match the profile.
    pub(crate) fn written_before(&self) -> BTreeSet<Setting> {
        let journal = self.journal().ok().flatten().unwrap_or_default();
        let node = Node::look(&self.tree, &self.settings);
        let same = |it: &Judged| {
            let entry = journal.entry(it.knob.name, &it.path);
            // Held files were closed with their process.
            it.knob.rule != Rule::Held
                && entry.is_some_and(|entry| !entry.refused && entry.written.bytes() == it.desired)
        };
        let judged = self.sight(&node).judge_all(&journal);
        judged.iter().filter(|it| same(it)).map(Judged::setting).collect()
    }

    /// Records written and restored settings in the journal. The record before the first change
    /// suffices for a restore, so an error here does not fail the pass.
    fn note_end(&self, journal: &Journal, noted: &Journal, was_there: bool) {
        let result = match journal.settings.is_empty() {
            true if was_there || !noted.settings.is_empty() => self.store.remove(),
            false if journal != noted => self.store.write(journal),
            _ => Ok(()),
        };
        if let Err(error) = result {
            tracing::warn!("the journal was not written in this pass: {error}");
        }
    }

    pub(crate) fn restore(&mut self) -> io::Result<Restored> {
        self.held.clear();
        if !self.store.has_folder() {
            return Ok(Restored::default());
        }
        let _lock = self.store.lock()?;
        let mut restored = Restored::default();
        let journal = self.journal()?.unwrap_or_default();
        for entry in journal.settings.iter().rev() {
            match self.put_back(entry) {
                Ok(changed) => restored.settings += usize::from(changed),
                Err(error) => restored.failed.push(format!("{}: {error}", entry.path)),
            }
        }
        if restored.failed.is_empty() {
            self.store.remove()?;
        }
        Ok(restored)
    }

    /// Number of settings in the journal; 0 if there is no journal.
    pub(crate) fn journalled(&self) -> usize {
        self.journal().ok().flatten().map_or(0, |it| it.settings.len())
    }

    pub(crate) fn unreadable_journal(&self) -> Option<io::Error> {
        self.journal().err()
    }

    fn journal(&self) -> io::Result<Option<Journal>> {
        let mut journal = self.store.read(&node::boot(&self.tree))?;
        journal.iter_mut().for_each(|it| self.settle(it));
        Ok(journal)
    }

    /// Determines from the files, after an interrupted pass, which settings it has written.
    fn settle(&self, journal: &mut Journal) {
        let pending = |it: &&mut Entry| it.pending.is_some() && check(it).is_ok();
        for entry in journal.settings.iter_mut().filter(pending) {
            let rule = rule_of(entry);
            if let Ok(now) = self.tree.read(&entry.path) {
                entry.settle(|pending| rule::shown(rule, pending) == rule::shown(rule, &now));
            }
        }
    }

    fn sight<'a>(&'a self, node: &'a Node) -> Sight<'a> {
        Sight { tree: &self.tree, node, profile: &self.profile }
    }

    fn report(&self, sight: &Sight<'_>, judged: Vec<Judged>, leaving: Vec<Row>) -> Report {
        let mut rows: Vec<Row> = judged.into_iter().map(|it| it.row).collect();
        rows.extend(leaving);
        rows.extend(sight.elsewhere(self.kubelet.as_ref()));
        let notes = sight.node.split.iter().cloned().collect();
        Report { profile: self.profile.name.clone(), knobs: rows, notes }
    }

    fn leaving(&self, journal: &Journal, judged: &[Judged]) -> Vec<Row> {
        let named = |entry: &Entry| {
            judged.iter().any(|it| it.knob.name == entry.name && it.path == entry.path)
        };
        let row = |entry: &Entry| {
            let knob = catalogue::find(&entry.name)?;
            let now = self.tree.read(&entry.path).ok()?;
            let changed = now != entry.original.bytes();
            changed.then(|| put_back(entry, knob, &now, "not wanted any more"))
        };
        let leaves = |it: &&Entry| !named(it) && check(it).is_ok();
        journal.settings.iter().filter(leaves).filter_map(row).collect()
    }

    fn note_changes(&self, journal: &mut Journal, judged: &[Judged]) {
        for judged in judged.iter().filter(|it| self.to_change(it)) {
            match journal.entry_mut(judged.knob.name, &judged.path) {
                Some(entry) => entry.will_be(&judged.desired),
                None => journal.settings.push(Entry {
                    name: judged.knob.name.to_owned(),
                    target: judged.row.target.clone(),
                    path: judged.path.clone(),
                    original: judged.now.clone().unwrap_or_default().into(),
                    written: judged.desired.clone().into(),
                    lasting: judged.knob.rule == Rule::Line,
                    pending: None,
                    refused: false,
                }),
            }
        }
    }

    fn to_change(&self, judged: &Judged) -> bool {
        let held = || self.held.iter().any(|(path, _)| *path == judged.path);
        if self.left_alone.contains(&judged.setting()) {
            return false;
        }
        match judged.row.state {
            State::Differs => !judged.desired.is_empty(),
            State::Ok => judged.knob.rule == Rule::Held && !judged.desired.is_empty() && !held(),
            _ => false,
        }
    }

    fn change(&mut self, judged: &mut Judged, journal: &mut Journal) {
        if !self.to_change(judged) {
            return;
        }
        let result = self.write(judged).and_then(|()| self.tree.read(&judged.path));
        judged.written(&result);
        if let Some(entry) = journal.entry_mut(judged.knob.name, &judged.path) {
            if result.is_ok() {
                entry.was_written(&judged.desired);
            }
            entry.refused = judged.refused_by_kernel(&result);
        }
    }

    fn write(&mut self, judged: &Judged) -> io::Result<()> {
        match judged.knob.rule {
            Rule::Held => {
                let file = self.tree.hold(&judged.path, &judged.desired)?;
                self.held.retain(|(path, _)| *path != judged.path);
                self.held.push((judged.path.clone(), file));
                Ok(())
            }
            Rule::Line => self.tree.replace(&judged.path, &judged.desired),
            _ => self.tree.write(&judged.path, &judged.desired),
        }
    }

    /// Restores settings that the profile no longer contains, beginning with the last.
    fn put_back_leaving(
        &mut self,
        journal: &mut Journal,
        judged: &mut [Judged],
        leaving: &mut Vec<Row>,
    ) {
        // Settings that kube-proxy has taken over stay unchanged.
        let owned = |it: &Judged| it.row.state == State::Owned;
        journal.settings.retain(|entry| !judged.iter().any(|it| owned(it) && it.keeps(entry)));
        for entry in journal.settings.clone().iter().rev() {
            if judged.iter().any(|it| it.keeps(entry)) {
                continue;
            }
            self.held.retain(|(path, _)| *path != entry.path);
            let result = self.put_back(entry);
            let of_path = judged.iter_mut().filter(|it| it.path == entry.path);
            let rows = leaving.iter_mut().chain(of_path.map(|it| &mut it.row));
            let mut rows = rows.filter(|row| row.name == entry.name && row.target == entry.target);
            match (result, rows.next()) {
                (Ok(_), row) => {
                    journal.settings.retain(|it| it != entry);
                    row.into_iter().filter(|it| it.state == State::Differs).for_each(|row| {
                        row.state = State::Ok;
                        row.changed_from = row.actual.replace(row.wanted.clone());
                    });
                }
                (Err(error), Some(row)) => {
                    row.state = State::Failed;
                    row.reason = error.to_string();
                }
                (Err(error), None) => match not_put_back(entry, &error) {
                    Some(row) => leaving.push(row),
                    None => tracing::error!("{}: {error}", entry.path),
                },
            }
        }
    }

    /// Writes an original back. Returns whether this was necessary. Nothing needs to be written if
    /// the file is gone. Entries that do not match the catalogue are errors.
    fn put_back(&self, entry: &Entry) -> io::Result<bool> {
        check(entry)?;
        let original = entry.original.bytes();
        let rule = rule_of(entry);
        let now = match self.tree.read(&entry.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        if rule == Rule::Line {
            self.tree.remove_unfinished(&entry.path)?;
        }
        if now == original {
            return Ok(false);
        }
        match rule {
            Rule::Line => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let content =
                    node::undone(&text(original), &text(entry.written.bytes()), &text(&now));
                self.tree.replace(&entry.path, content.as_bytes())?;
            }
            Rule::Choice => self.write_choice(&entry.path, original)?,
            _ => self.tree.write(&entry.path, original)?,
        }
        self.verify(entry, rule)?;
        Ok(true)
    }

    /// The kernel shows all words but accepts only one. Old kernels compare only the prefix and
    /// would read `always [madvise] never` as `always`, so all words are written only to files that
    /// do not belong to the kernel.
    fn write_choice(&self, path: &str, original: &[u8]) -> io::Result<()> {
        let word = rule::shown(Rule::Choice, original);
        self.tree.write(path, word.as_bytes())?;
        match self.tree.read(path)? == original {
            true => Ok(()),
            false => match self.tree.write(path, original) {
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.tree.write(path, word.as_bytes())
                }
                other => other,
            },
        }
    }

    /// Fails if a file does not show its original after the write.
    fn verify(&self, entry: &Entry, rule: Rule) -> io::Result<()> {
        // Held files are closed when their process exits, and another program may have changed the
        // line.
        if matches!(rule, Rule::Held | Rule::Line) {
            return Ok(());
        }
        let now = rule::shown(rule, &self.tree.read(&entry.path)?);
        let original = rule::shown(rule, entry.original.bytes());
        match now == original {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "not restored: {original} was written, but it shows {now}"
            ))),
        }
    }
}

fn not_put_back(entry: &Entry, error: &io::Error) -> Option<Row> {
    let knob = catalogue::find(&entry.name)?;
    let row = put_back(entry, knob, &[], "");
    let reason = format!("{}: {error}", entry.path);
    Some(Row { actual: None, state: State::Failed, reason, ..row })
}

fn rule_of(entry: &Entry) -> Rule {
    catalogue::find(&entry.name).map_or(Rule::Exact, |knob| knob.rule)
}

/// A single pass cannot change these settings, because it cannot hold files open.
fn left_to_the_agent(judged: &mut Judged) {
    if judged.row.state == State::Differs {
        judged.row.state = State::Elsewhere;
        "the agent holds it for as long as it runs in apply mode"
            .clone_into(&mut judged.row.reason);
    }
    judged.desired.clear();
}
