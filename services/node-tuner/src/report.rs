//! The result of an audit, a plan or a change by setting.

mod table;

use corelane_service::process;
use serde::Serialize;

use crate::catalogue::Class;
use crate::settings::Output;

/// How one setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As wanted.
    Ok,
    /// Not as wanted.
    Differs,
    /// It does not exist in this kernel, hardware or virtual machine, or would have no effect.
    Skipped,
    /// Another program sets it.
    Owned,
    /// It could not be written.
    Failed,
    /// It cannot be read.
    Unknown,
    /// It is not set on the host.
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

/// One file of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) class: Class,
    /// The queue, interrupt or CPU; empty if the setting has a single file.
    pub(crate) target: String,
    pub(crate) wanted: String,
    pub(crate) actual: Option<String>,
    pub(crate) state: State,
    /// Why it is skipped, owned, failed, unknown or elsewhere.
    pub(crate) reason: String,
    /// The previous value, if this pass has changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changed_from: Option<String>,
    /// Whether it is no longer in the profile, so that its original is written back.
    #[serde(skip)]
    pub(crate) leaving: bool,
}

/// All settings of a profile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) profile: String,
    pub(crate) knobs: Vec<Row>,
}

impl Report {
    /// Number of settings that are not as wanted.
    pub(crate) fn differs(&self) -> usize {
        self.count(State::Differs)
    }

    /// Whether the node matches the profile, except for settings that do not exist on it.
    pub(crate) fn prepared(&self) -> bool {
        self.differs() + self.count(State::Failed) == 0
    }

    /// Number of settings in this state.
    pub(crate) fn count(&self, state: State) -> usize {
        self.knobs.iter().filter(|row| row.state == state).count()
    }

    /// Prints the table or JSON on standard output.
    pub(crate) fn print(&self, output: Output) {
        let text = match output {
            Output::Table => self.table(),
            Output::Json => self.json(),
        };
        process::print(&text);
    }

    /// A table of 120 columns.
    pub(crate) fn table(&self) -> String {
        table::table(self)
    }

    /// The changes that `apply` would make, as removed and added lines.
    pub(crate) fn plan(&self) -> String {
        table::plan(self)
    }

    /// JSON.
    pub(crate) fn json(&self) -> String {
        let value = serde_json::json!({
            "profile": self.profile,
            "prepared": self.prepared(),
            "knobs": self.knobs,
            "differs": self.differs(),
        });
        format!("{value:#}\n")
    }
}
