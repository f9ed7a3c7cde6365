//! Proves whether the pods of a node have exclusive CPUs, and the open files and sysctls that they
//! need.
//!
//! Compares the API server's data about pods with the kernel's data about their processes: cgroups,
//! threads, CPUs and interrupts. It changes nothing.

mod ask;
mod cgroups;
mod checks;
mod examine;
mod interrupts;
mod processes;
mod sysctls;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use self::ask::run;
pub(crate) use self::ask::table;
pub(crate) use self::examine::{Examiner, Strangers};

/// A pod of the node, from the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The UID in the name of its cgroup. It differs for static pods.
    pub(crate) cgroup: String,
    /// Whether to prove its pinning. Otherwise it only counts as a neighbour.
    pub(crate) selected: bool,
    /// Whether its requests equal its limits.
    pub(crate) guaranteed: bool,
    pub(crate) containers: Vec<Container>,
    /// From its `securityContext`.
    pub(crate) sysctls: Vec<(String, String)>,
}

/// A container of a pod, from the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// Its ID at the container runtime, while it runs.
    pub(crate) id: Option<String>,
    /// The exclusive CPUs that it requests: the pod is Guaranteed, and the request a whole number.
    pub(crate) asked: Option<u64>,
    /// Whether it is one of the pod's `containers`. The others only count as neighbours.
    pub(crate) checked: bool,
}

impl Container {
    fn has(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }
}

/// The result for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeProof {
    pub(crate) node: String,
    pub(crate) proven: bool,
    pub(crate) pods: Vec<PodProof>,
}

/// The result for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodProof {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) proven: bool,
    pub(crate) containers: Vec<ContainerProof>,
}

/// The result for a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerProof {
    pub(crate) container: String,
    /// The CPUs on which it may run; empty if unknown.
    pub(crate) cpus: String,
    /// Its CPU time, if known. Not part of the proof, only a metric.
    #[serde(skip)]
    pub(crate) cpu_time: Option<Duration>,
    pub(crate) checks: Vec<Check>,
}

/// One check of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) check: Name,
    pub(crate) state: State,
    /// The reason.
    pub(crate) detail: String,
}

/// The name of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    /// No other container of the node may run on its CPUs.
    CpusExclusive,
    /// It is never throttled by a quota.
    NoCfsQuota,
    /// No other process shares the cores of its CPUs.
    WholeCores,
    /// Its CPUs serve no interrupt of a network device.
    InterruptsElsewhere,
    /// It may open as many files as it needs.
    OpenFiles,
    /// Its sysctls have the values that the pod sets.
    Sysctls,
}

impl Name {
    pub(crate) const ALL: [Name; 6] = [
        Name::CpusExclusive,
        Name::NoCfsQuota,
        Name::WholeCores,
        Name::InterruptsElsewhere,
        Name::OpenFiles,
        Name::Sysctls,
    ];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Name::CpusExclusive => "cpus-exclusive",
            Name::NoCfsQuota => "no-cfs-quota",
            Name::WholeCores => "whole-cores",
            Name::InterruptsElsewhere => "interrupts-elsewhere",
            Name::OpenFiles => "open-files",
            Name::Sysctls => "sysctls",
        }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Ok,
    Failed,
    /// The data is not accessible.
    Unknown,
    /// The check does not apply.
    NotApplicable,
}

impl State {
    pub(crate) fn text(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Failed => "failed",
            State::Unknown => "unknown",
            State::NotApplicable => "not-applicable",
        }
    }
}

impl NodeProof {
    /// A node is proven if all its pods are.
    pub(crate) fn of(node: &str, pods: Vec<PodProof>) -> Self {
        NodeProof { node: node.to_owned(), proven: pods.iter().all(|pod| pod.proven), pods }
    }
}

impl ContainerProof {
    /// Whether no check failed. The CPUs and the quota must be known. Other data may be
    /// inaccessible to an unprivileged agent.
    pub(crate) fn proven(&self) -> bool {
        self.checks.iter().all(|it| match it.state {
            State::Ok | State::NotApplicable => true,
            State::Failed => false,
            State::Unknown => !matches!(it.check, Name::CpusExclusive | Name::NoCfsQuota),
        })
    }
}
