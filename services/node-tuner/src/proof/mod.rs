//! Proves whether a node's pods have exclusive CPUs, and the open files and sysctls that they need.
//!
//! Compares the API server's data about pods with the kernel's data about their processes: cgroups,
//! threads, CPUs and interrupts. Changes nothing.

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The UID in the name of the pod's cgroup, which is a different UID for static pods.
    pub(crate) cgroup: String,
    /// Whether to prove the pod's pinning. Otherwise the pod only counts as a neighbour.
    pub(crate) selected: bool,
    pub(crate) guaranteed: bool,
    pub(crate) containers: Vec<Container>,
    pub(crate) sysctls: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    /// ID assigned by the container runtime, while the container is running.
    pub(crate) id: Option<String>,
    /// Exclusive CPUs that the container requests: the pod is Guaranteed, and the request is a
    /// whole number.
    pub(crate) asked: Option<u64>,
    /// Whether the container is one of the pod's `containers`; other containers only count as
    /// neighbours.
    pub(crate) checked: bool,
}

impl Container {
    fn has(&self, id: &str) -> bool {
        self.id.as_deref() == Some(id)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeProof {
    pub(crate) node: String,
    pub(crate) proven: bool,
    pub(crate) pods: Vec<PodProof>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodProof {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) uid: String,
    pub(crate) proven: bool,
    pub(crate) containers: Vec<ContainerProof>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerProof {
    pub(crate) container: String,
    /// CPUs that the container may run on; empty if unknown.
    pub(crate) cpus: String,
    /// CPU time, if known. It is only a metric, not part of the proof.
    #[serde(skip)]
    pub(crate) cpu_time: Option<Duration>,
    pub(crate) checks: Vec<Check>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Check {
    pub(crate) check: Name,
    pub(crate) state: State,
    pub(crate) detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Name {
    /// No other container on the node may run on the container's CPUs.
    CpusExclusive,
    NoCfsQuota,
    /// No other process shares the cores of the container's CPUs.
    WholeCores,
    /// The container's CPUs serve no interrupt of a network device.
    InterruptsElsewhere,
    OpenFiles,
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
    /// A node is proven if all of its pods are proven.
    pub(crate) fn of(node: &str, pods: Vec<PodProof>) -> Self {
        NodeProof { node: node.to_owned(), proven: pods.iter().all(|pod| pod.proven), pods }
    }
}

impl ContainerProof {
    /// Whether no check failed. CPUs and quota must be known; other data may be inaccessible to an
    /// unprivileged agent.
    pub(crate) fn proven(&self) -> bool {
        self.checks.iter().all(|it| match it.state {
            State::Ok | State::NotApplicable => true,
            State::Failed => false,
            State::Unknown => !matches!(it.check, Name::CpusExclusive | Name::NoCfsQuota),
        })
    }
}
