//! What the program is told: flags, the environment, a file.

mod arguments;
mod file;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tracing::level_filters::LevelFilter;

pub(crate) use arguments::read;

use crate::kubelet::Kubelet;

/// Everything that the program is told.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) command: Command,
    /// web-10k, web-100k, web-1m or custom.
    pub(crate) profile: String,
    /// Values of knobs beside or instead of the profile's; `off` takes one out.
    pub(crate) knobs: BTreeMap<String, String>,
    /// What /proc, /sys, /dev and /etc are below.
    pub(crate) root: PathBuf,
    /// The folder of the journal.
    pub(crate) journal: PathBuf,
    /// CPUs for interrupts, in the kernel's list form; empty: not said.
    pub(crate) housekeeping: String,
    /// Network devices; empty: those with hardware.
    pub(crate) interfaces: Vec<String>,
    /// The kubelet's configuration, to be compared.
    pub(crate) kubelet: Option<Kubelet>,
    pub(crate) output: Output,
    pub(crate) log_level: LevelFilter,
    pub(crate) log_format: LogFormat,
    pub(crate) agent: Agent,
}

impl Settings {
    /// Whether originals are put back, and nothing else is done.
    pub(crate) fn restores(&self) -> bool {
        match self.command {
            Command::Restore => true,
            Command::Agent => self.agent.mode == Mode::Restore,
            _ => false,
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Audit,
    Plan,
    Apply,
    Restore,
    Agent,
    Proof(Proof),
    Generate(Generate),
    Uninstall(Uninstall),
    Knobs,
}

/// Form of what is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Table,
    Json,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Settings of the loop.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) mode: Mode,
    /// Whether what drifted is written again, or only reported.
    pub(crate) repair: bool,
    pub(crate) interval: Duration,
    pub(crate) listen: SocketAddr,
    /// Name of the node; empty: no Kubernetes.
    pub(crate) node: String,
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where the hierarchies of cgroups are mounted.
    pub(crate) cgroups: PathBuf,
    /// Label selector of the pods whose pinning is to be proven.
    pub(crate) pods: String,
    /// Open files that such a pod needs; none: as the profile says.
    pub(crate) nofile: Option<u64>,
    /// Key of the taint of nodes that are not prepared; empty: none.
    pub(crate) taint: String,
}

/// What the loop does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Audit,
    Apply,
    Restore,
}

/// Settings of `proof`.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// URLs of agents; a name with several addresses means all of them.
    pub(crate) agents: Vec<String>,
    /// Whether it is well if there is no pod to prove anything of.
    pub(crate) allow_none: bool,
}

/// Settings of `uninstall`.
#[derive(Clone, Debug)]
pub(crate) struct Uninstall {
    pub(crate) namespace: String,
    pub(crate) daemonset: String,
    pub(crate) timeout: Duration,
}

/// Settings of `generate`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generate {
    pub(crate) what: What,
    /// Whether unsafe sysctls too.
    pub(crate) with_unsafe: bool,
}

/// Whose file is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Server,
    Gateway,
    Kubelet,
    Containerd,
    Boot,
}
