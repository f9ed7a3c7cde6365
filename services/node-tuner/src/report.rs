//! Results of an audit, a plan or a change, by setting.

use std::fmt::Write;

use corelane_service::process;
use serde::Serialize;

use crate::catalogue::{self, Class};
use crate::settings::Output;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Ok,
    /// The setting does not have the wanted value.
    Differs,
    /// The setting does not exist in this kernel, hardware or virtual machine, or would have no
    /// effect.
    Skipped,
    Owned,
    /// The setting could not be written.
    Failed,
    /// The setting cannot be read.
    Unknown,
    /// The setting belongs to pods, the kubelet, the container runtime or the kernel command line.
    Elsewhere,
}

impl State {
    pub(crate) fn text(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Differs => "differs",
            State::Skipped => "skipped",
            State::Owned => "owned",
            State::Failed => "failed",
            State::Unknown => "unknown",
            State::Elsewhere => "elsewhere",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// Queue, interrupt or CPU; empty if the setting has a single file.
    pub(crate) target: String,
    pub(crate) wanted: String,
    pub(crate) actual: Option<String>,
    pub(crate) state: State,
    /// The reason why the setting is skipped, owned, failed, unknown or elsewhere.
    pub(crate) reason: String,
    /// Previous value, if this pass has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changed_from: Option<String>,
    /// Whether the profile no longer contains the setting, so that its original value is written
    /// back.
    #[serde(skip)]
    pub(crate) leaving: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) profile: String,
    pub(crate) knobs: Vec<Row>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Number of settings that differ from their wanted values.
    pub(crate) fn differs(&self) -> usize {
        self.count(State::Differs)
    }

    /// Whether the node matches the profile, ignoring settings that do not exist on it.
    pub(crate) fn prepared(&self) -> bool {
        self.differs() + self.count(State::Failed) == 0
    }

    pub(crate) fn count(&self, state: State) -> usize {
        self.knobs.iter().filter(|row| row.state == state).count()
    }

    pub(crate) fn print(&self, output: Output) {
        let text = match output {
            Output::Table => self.table(),
            Output::Json => self.json(),
        };
        process::print(&text);
    }

    pub(crate) fn table(&self) -> String {
        table(self)
    }

    /// The changes that `apply` would make, as removed and added lines.
    pub(crate) fn plan(&self) -> String {
        plan(self)
    }

    pub(crate) fn json(&self) -> String {
        let value = serde_json::json!({
            "profile": self.profile,
            "prepared": self.prepared(),
            "knobs": self.knobs,
            "differs": self.differs(),
            "notes": self.notes,
        });
        format!("{value:#}\n")
    }
}

const WIDTH: usize = 120;
/// Maximum width of a value; longer values, such as lists of names, are truncated.
const VALUE: usize = 27;

/// One line per setting, followed by the reasons for settings that do not have the wanted value.
fn table(report: &Report) -> String {
    let cells: Vec<[String; 4]> = report.knobs.iter().map(cells).collect();
    let head = ["SETTING", "STATE", "ACTUAL", "WANTED"].map(str::to_owned);
    let width =
        |at: usize| cells.iter().chain([&head]).map(|it| it[at].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = line(&head, widths);
    for (row, cells) in report.knobs.iter().zip(&cells) {
        text += &line(cells, widths);
        let was = row.changed_from.iter().map(|before| format!("was {before}"));
        let words: Vec<String> =
            was.chain([row.reason.clone()]).filter(|it| !it.is_empty()).collect();
        if !words.is_empty() {
            text += &wrapped(&words.join("; "), "    ");
        }
    }
    text + &notes(report) + &summary(report)
}

fn notes(report: &Report) -> String {
    report.notes.iter().map(|note| format!("\n{}", wrapped(note, ""))).collect()
}

fn cells(row: &Row) -> [String; 4] {
    let actual = row.actual.as_deref().unwrap_or("-");
    let wanted = if row.wanted.is_empty() { "-" } else { &row.wanted };
    [setting(row), row.state.text().to_owned(), cut(actual), cut(wanted)]
}

fn setting(row: &Row) -> String {
    match row.target.as_str() {
        "" => row.name.to_owned(),
        target => format!("{} {target}", row.name),
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= VALUE {
        return text.to_owned();
    }
    text.chars().take(VALUE - 3).chain("...".chars()).collect()
}

fn line(cells: &[String; 4], [first, second, third]: [usize; 3]) -> String {
    let [setting, state, actual, wanted] = cells;
    let text = format!("{setting:first$}  {state:second$}  {actual:third$}  {wanted}");
    format!("{}\n", text.trim_end())
}

fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > WIDTH {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &format!("{indent}{line}\n")
}

fn summary(report: &Report) -> String {
    let all = [
        State::Ok,
        State::Differs,
        State::Failed,
        State::Unknown,
        State::Owned,
        State::Skipped,
        State::Elsewhere,
    ];
    let counted = all.map(|it| (report.count(it), it.text())).into_iter().filter(|it| it.0 > 0);
    let counts: Vec<String> = counted.map(|(count, state)| format!("{count} {state}")).collect();
    if counts.is_empty() {
        return format!("\n{} wants nothing\n", report.profile);
    }
    let is = if report.prepared() { "prepared" } else { "not prepared" };
    format!("\n{} is {is}: {}\n", report.profile, counts.join(", "))
}

fn plan(report: &Report) -> String {
    let mut text = format!("profile {}\n", report.profile);
    for row in report.knobs.iter().filter(|row| row.state == State::Differs) {
        let name = setting(row);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {name} {}", row.actual.as_deref().unwrap_or("-"));
        let _ = writeln!(text, "+ {name} {}", row.wanted);
        let reason = catalogue::find(row.name).map_or("", |knob| knob.reason);
        text += &wrapped(if row.reason.is_empty() { reason } else { &row.reason }, "    ");
    }
    text += &notes(report);
    match report.differs() {
        0 => text + "nothing to write\n",
        count => format!("{text}{count} setting(s) to write\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, state: State, reason: &str) -> Row {
        Row {
            name,
            class: Class::Host,
            target: "a-device-with-a-name/rx-10".to_owned(),
            wanted: "w".repeat(300),
            actual: Some("a".repeat(300)),
            state,
            reason: reason.to_owned(),
            changed_from: None,
            leaving: false,
        }
    }

    #[test]
    fn tables_fit_a_terminal() {
        let longest = catalogue::knobs().map(|knob| knob.name).max_by_key(|name| name.len());
        let rows = vec![
            row(longest.expect("some"), State::Elsewhere, &"why ".repeat(90)),
            row("net.rps_cpus", State::Differs, ""),
        ];
        let mut report = Report { profile: "web-1m".to_owned(), knobs: rows, notes: Vec::new() };
        report.knobs[0].target.clear();
        for line in report.table().lines() {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", line.len());
        }
        assert!(report.table().ends_with("web-1m is not prepared: 1 differs, 1 elsewhere\n"));
    }

    #[test]
    fn a_plan_says_what_goes_what_comes_and_why() {
        let mut row = row("net.core.netdev_max_backlog", State::Differs, "");
        row.target.clear();
        row.wanted = "4000".to_owned();
        row.actual = Some("1000".to_owned());
        let report = Report { profile: "web-10k".to_owned(), knobs: vec![row], notes: Vec::new() };
        let plan = report.plan();
        let lines: Vec<&str> = plan.lines().collect();
        assert_eq!(lines[1], "- net.core.netdev_max_backlog 1000");
        assert_eq!(lines[2], "+ net.core.netdev_max_backlog 4000");
        assert!(lines[3].starts_with("    Packets to pods"), "{plan}");
    }
}
