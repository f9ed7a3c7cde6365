//! Flags, environment variables and a file.

mod read;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use corelane_service::flags::allowed;
use corelane_service::log::{Format, Level};
use corelane_service::value;

pub(crate) use self::read::read;
use crate::kubelet::Kubelet;

pub(crate) const NAME: &str = "node-tuner";

/// Prepares a Kubernetes node for many connections
#[derive(Clone, Debug, Parser)]
#[command(
    name = NAME,
    version,
    // A missing command must be reported as an error.
    arg_required_else_help = false,
    after_help = "Flags take precedence over the environment, the environment over the file."
)]
pub(crate) struct Settings {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// YAML file with any of these flags
    #[arg(long, global = true, env = "NODE_TUNER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Validate the settings and exit
    #[arg(long, global = true, env = "NODE_TUNER_CHECK")]
    check: bool,
    /// Node profile
    #[arg(long, global = true, env = "NODE_TUNER_PROFILE", default_value = "web-10k")]
    #[arg(value_parser = ["web-10k", "web-100k", "web-1m", "custom"])]
    pub(crate) profile: String,
    /// Settings that override the profile; VALUE off removes one
    #[arg(
        id = "knobs",
        long = "knobs",
        global = true,
        env = "NODE_TUNER_KNOBS",
        value_name = "NAME=VALUE"
    )]
    #[arg(action = ArgAction::Append, value_parser = pairs)]
    overrides: Vec<Pairs>,
    /// Overrides by name.
    #[arg(skip)]
    pub(crate) knobs: BTreeMap<String, String>,
    /// Parent folder of /proc, /sys, /dev and /etc
    #[arg(long, global = true, env = "NODE_TUNER_ROOT", default_value = "/")]
    pub(crate) root: PathBuf,
    /// Folder of the journal
    #[arg(long, global = true, env = "NODE_TUNER_JOURNAL")]
    #[arg(default_value = "/var/lib/corelane/node-tuner")]
    pub(crate) journal: PathBuf,
    /// CPUs for interrupts, such as 0-1 [default: not set]
    #[arg(long, global = true, env = "NODE_TUNER_HOUSEKEEPING", default_value = "")]
    pub(crate) housekeeping: String,
    /// Network devices [default: all with hardware]
    #[arg(long, global = true, env = "NODE_TUNER_INTERFACES")]
    #[arg(action = ArgAction::Append, value_delimiter = ',')]
    pub(crate) interfaces: Vec<String>,
    /// File with the kubelet's configuration or /configz output, for comparison
    #[arg(id = "kubelet-config", long, global = true, env = "NODE_TUNER_KUBELET_CONFIG")]
    #[arg(value_name = "FILE")]
    kubelet_config: Option<PathBuf>,
    /// The content of that file.
    #[arg(skip)]
    pub(crate) kubelet: Option<Kubelet>,
    /// Output format
    #[arg(long, global = true, env = "NODE_TUNER_OUTPUT", default_value = "table")]
    pub(crate) output: Output,
    /// Log level: off, error, warn, info, debug or trace
    #[arg(id = "log.level", long = "log.level", global = true, env = "NODE_TUNER_LOG_LEVEL")]
    #[arg(default_value = "info", value_parser = allowed(value::word::<Level>))]
    pub(crate) log_level: Level,
    /// Log line format
    #[arg(id = "log.format", long = "log.format", global = true, env = "NODE_TUNER_LOG_FORMAT")]
    #[arg(default_value = "text")]
    pub(crate) log_format: Format,
    #[command(flatten)]
    pub(crate) agent: Agent,
}

impl Settings {
    /// Whether only originals are written back.
    pub(crate) fn restores(&self) -> bool {
        match self.command {
            Command::Restore => true,
            Command::Agent => self.agent.mode == Mode::Restore,
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what differs from the profile; change nothing
    Audit,
    /// Show what apply would write, and why
    Plan,
    /// Save the original values, then write what differs
    Apply,
    /// Write back the original values
    Restore,
    /// Audit, apply or restore repeatedly
    Agent,
    Proof(Proof),
    Generate(Generate),
    /// List all settings, with reasons and risks
    Knobs,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

/// Settings of the loop.
#[derive(Args, Clone, Debug)]
pub(crate) struct Agent {
    /// Agent mode
    #[arg(id = "agent.mode", long = "agent.mode", global = true, env = "NODE_TUNER_AGENT_MODE")]
    #[arg(default_value = "audit")]
    pub(crate) mode: Mode,
    /// Action on drift
    #[arg(id = "agent.drift", long = "agent.drift", global = true, env = "NODE_TUNER_AGENT_DRIFT")]
    #[arg(default_value = "repair")]
    pub(crate) drift: Drift,
    // Alerts treat an agent as hanging after 15 minutes without a pass.
    /// Time between passes
    #[arg(id = "agent.interval", long = "agent.interval", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_INTERVAL", default_value = "30s")]
    #[arg(value_parser = allowed(value::duration(SECOND, 300 * SECOND)))]
    pub(crate) interval: Duration,
    /// Address for probes, metrics and reports
    #[arg(id = "agent.listen", long = "agent.listen", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_LISTEN", default_value = "0.0.0.0:9905")]
    #[arg(value_parser = allowed(value::address))]
    pub(crate) listen: SocketAddr,
    /// Node name; if empty, Kubernetes is not used
    #[arg(id = "agent.node", long = "agent.node", global = true, env = "NODE_TUNER_AGENT_NODE")]
    #[arg(default_value = "")]
    pub(crate) node: String,
    /// The agent's DaemonSet; without it, an exiting agent never restores its node
    #[arg(id = "agent.daemonset", long = "agent.daemonset", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_DAEMONSET", value_name = "NAMESPACE/NAME")]
    #[arg(value_parser = allowed(namespaced))]
    daemonset: Option<(String, String)>,
    /// Kubernetes API configuration [default: the pod's]
    #[arg(id = "agent.kubeconfig", long = "agent.kubeconfig", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Mount point of cgroups
    #[arg(id = "agent.cgroups", long = "agent.cgroups", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_CGROUPS", default_value = "/sys/fs/cgroup")]
    pub(crate) cgroups: PathBuf,
    /// Label selector of the pods whose pinning the agent proves
    #[arg(id = "agent.pods", long = "agent.pods", global = true, env = "NODE_TUNER_AGENT_PODS")]
    #[arg(default_value = "app.kubernetes.io/name in (corelane-server, corelane-gateway)")]
    pub(crate) pods: String,
    /// Open files that such a pod needs [default: the profile's]
    #[arg(id = "agent.nofile", long = "agent.nofile", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_NOFILE", value_parser = allowed(value::number(1, 1 << 30)))]
    pub(crate) nofile: Option<u64>,
    /// Taint key for nodes that are not prepared; if empty, no taint is set
    #[arg(id = "agent.taint", long = "agent.taint", global = true, env = "NODE_TUNER_AGENT_TAINT")]
    #[arg(default_value = "")]
    pub(crate) taint: String,
    /// Minimum time between updates of a replica's deletion cost; by default, no cost is written
    #[arg(id = "agent.deletion-cost", long = "agent.deletion-cost", global = true)]
    #[arg(env = "NODE_TUNER_AGENT_DELETION_COST")]
    #[arg(value_parser = allowed(value::duration(SECOND, 3600 * SECOND)))]
    pub(crate) deletion_cost: Option<Duration>,
}

const SECOND: Duration = Duration::from_secs(1);

impl Agent {
    /// Namespace and name of the DaemonSet whose deletion makes this agent restore its node. Only an
    /// agent in apply mode has something to restore, and the privileges.
    pub(crate) fn owner(&self) -> Option<&(String, String)> {
        self.daemonset.as_ref().filter(|_| self.mode == Mode::Apply)
    }
}

fn namespaced(text: &str) -> Result<(String, String), &'static str> {
    let parts = text.split_once('/').filter(|(namespace, name)| {
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    });
    let (namespace, name) = parts.ok_or("a namespace and a name, such as node-tuning/agents")?;
    Ok((namespace.to_owned(), name.to_owned()))
}

/// What the loop does in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    Audit,
    Apply,
    Restore,
}

/// Whether drifted settings are written again or only reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drift {
    Repair,
    Report,
}

/// Show whether pods have exclusive CPUs
#[derive(Args, Clone, Debug)]
pub(crate) struct Proof {
    /// Agents to query; a name means all of its addresses
    #[arg(long, env = "NODE_TUNER_AGENTS", default_value = "http://127.0.0.1:9905")]
    #[arg(action = ArgAction::Append, value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// Succeed even if no agent has a pod
    #[arg(long, env = "NODE_TUNER_ALLOW_NONE")]
    pub(crate) allow_none: bool,
}

/// Print settings that do not belong to the host as a file
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Generate {
    /// Consumer of the file
    pub(crate) what: What,
    /// Include sysctls that the kubelet must allow
    #[arg(id = "unsafe", long = "unsafe")]
    pub(crate) with_unsafe: bool,
}

/// Consumers of a generated file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    Service,
    Gateway,
    Kubelet,
    Containerd,
    Boot,
}

#[derive(Clone, Debug)]
struct Pairs(Vec<(String, String)>);

/// `NAME=VALUE`, separated by commas or semicolons. A part without `=` belongs to the preceding
/// value, because CPU lists also contain commas.
fn pairs(text: &str) -> Result<Pairs, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split([';', ',']).filter(|part| !part.trim().is_empty()) {
        match (part.split_once('='), found.last_mut()) {
            // An option within a value: setting names contain a dot.
            (Some((name, _)), Some((_, value))) if !name.contains('.') => {
                value.push_str(&format!(",{}", part.trim()));
            }
            (Some((name, value)), _) => {
                found.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            (None, Some((_, value))) => value.push_str(&format!(",{}", part.trim())),
            (None, None) => {
                return Err("expected NAME=VALUE, such as fs.file-max=2000000".to_owned());
            }
        }
    }
    Ok(Pairs(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_between_knobs_and_in_values() {
        for (text, wanted) in [
            ("a.b=1", vec![("a.b", "1")]),
            ("a.b=1,c.d=2", vec![("a.b", "1"), ("c.d", "2")]),
            ("a.b = 0,2-3 ; c.d=1 2 3", vec![("a.b", "0,2-3"), ("c.d", "1 2 3")]),
            ("a.b=x=true,y-z=false,c.d=1", vec![("a.b", "x=true,y-z=false"), ("c.d", "1")]),
            ("", vec![]),
        ] {
            let found = pairs(text).expect(text).0;
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, wanted, "{text}");
        }
        pairs("a.b").expect_err("no value");
    }
}
