//! The checks, as pure functions.

use std::collections::BTreeMap;

use super::cgroups::Quota;
use super::interrupts::Interrupt;
use super::{Check, Name, State};
use crate::cpus::Cpus;

/// Maximum failures that are named. The rest is counted.
const NAMED: usize = 3;

/// A container on the same node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The name in messages.
    pub(crate) name: String,
    /// Its ID at the container runtime.
    pub(crate) id: String,
    /// The CPUs on which any of its threads may run.
    pub(crate) cpus: Cpus,
}

/// The kernel's state of a container that requests exclusive CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pinning {
    pub(crate) asked: u64,
    pub(crate) cpuset: Cpus,
    /// The CPUs on which any of its threads may run.
    pub(crate) threads: Cpus,
}

pub(crate) fn check(check: Name, state: State, detail: impl Into<String>) -> Check {
    Check { check, state, detail: detail.into() }
}

/// No other container of the node may run on its CPUs.
pub(crate) fn cpus_exclusive(seen: &Pinning, neighbours: &[&Neighbour]) -> Check {
    let (asked, cpus) = (seen.asked, &seen.cpuset);
    let found = cpus.len() as u64;
    let beyond = seen.threads.without(cpus);
    let there: Vec<String> = neighbours
        .iter()
        .map(|other| (other, other.cpus.and(cpus)))
        .filter(|(_, shared)| !shared.is_empty())
        .map(|(other, shared)| format!("{} may run on CPU {shared}", other.name))
        .collect();
    let (state, detail) = if found != asked {
        let words = "the kubelet's CPU manager gave it no exclusive CPUs (policy static?)";
        (State::Failed, format!("requests {asked}, may run on {found} (CPU {cpus}): {words}"))
    } else if !beyond.is_empty() {
        (State::Failed, format!("has CPU {cpus}, but threads that may run on CPU {beyond}"))
    } else if !there.is_empty() {
        (State::Failed, some(&there))
    } else {
        (State::Ok, format!("CPU {cpus}, shared with none of {} containers", neighbours.len()))
    };
    check(Name::CpusExclusive, state, detail)
}

/// Neither the container nor its pod has a quota.
pub(crate) fn no_cfs_quota(container: &Quota, pod: &Quota) -> Check {
    let each = [("container", container), ("pod", pod)];
    let limited: Vec<String> = each
        .iter()
        .filter_map(|(of, quota)| Some((of, quota, quota.share()?)))
        .map(|(of, quota, share)| {
            let throttled = quota.throttled;
            format!("the {of} has a quota of {share} CPUs, throttled {throttled} times")
        })
        .collect();
    let throttled = container.throttled + pod.throttled;
    let (state, detail) = match (limited.is_empty(), throttled) {
        (false, _) => (State::Failed, some(&limited)),
        (true, 0) => (State::Ok, "no quota, never throttled".to_owned()),
        (true, times) => (State::Ok, format!("no quota; throttled {times} times before")),
    };
    check(Name::NoCfsQuota, state, detail)
}

/// No CPU outside the container shares a core with one of its own. The map has the siblings of each
/// CPU.
pub(crate) fn whole_cores(cpuset: &Cpus, siblings: &BTreeMap<u32, Cpus>) -> Check {
    if siblings.is_empty() {
        let words = "the kernel does not show which CPUs share a core";
        return check(Name::WholeCores, State::Unknown, words);
    }
    if siblings.values().all(|each| each.len() < 2) {
        return check(Name::WholeCores, State::NotApplicable, "no two CPUs share a core");
    }
    let mut outside = Cpus::default();
    for cpu in cpuset.iter() {
        if let Some(each) = siblings.get(&cpu) {
            outside.add(&each.without(cpuset));
        }
    }
    match outside.is_empty() {
        true => check(Name::WholeCores, State::Ok, format!("CPU {cpuset} are whole cores")),
        false => {
            let words = format!("CPU {outside} shares a core with CPU {cpuset} (full-pcpus-only?)");
            check(Name::WholeCores, State::Failed, words)
        }
    }
}

/// Its CPUs serve no interrupt of a network device.
pub(crate) fn interrupts_elsewhere(
    cpuset: &Cpus,
    interrupts: &Result<Vec<Interrupt>, String>,
) -> Check {
    let name = Name::InterruptsElsewhere;
    let interrupts = match interrupts {
        Ok(interrupts) => interrupts,
        Err(reason) => return check(name, State::Unknown, reason.as_str()),
    };
    if interrupts.is_empty() {
        return check(name, State::NotApplicable, "no network device of the node has interrupts");
    }
    let here: Vec<String> = interrupts
        .iter()
        .map(|it| (it, it.cpus.and(cpuset)))
        .filter(|(_, shared)| !shared.is_empty())
        .map(|(it, shared)| format!("interrupt {} of {} is on CPU {shared}", it.number, it.device))
        .collect();
    match here.is_empty() {
        true => {
            let count = interrupts.len();
            check(name, State::Ok, format!("{count} interrupts of network devices, none there"))
        }
        false => check(name, State::Failed, some(&here)),
    }
}

/// Every process may open as many files as wanted. `lowest`: the lowest soft limit of its
/// processes.
pub(crate) fn open_files(lowest: u64, wanted: u64) -> Check {
    let said = if lowest == u64::MAX { "unlimited".to_owned() } else { lowest.to_string() };
    match lowest >= wanted {
        true => check(
            Name::OpenFiles,
            State::Ok,
            format!("soft limit {said}, at least {wanted} wanted"),
        ),
        false => {
            let words = format!("soft limit {said}, at least {wanted} wanted");
            check(Name::OpenFiles, State::Failed, words)
        }
    }
}

/// Each sysctl has the pod's value. `actual`: the value inside the pod, or why it could not be
/// read.
pub(crate) fn sysctls(
    wanted: &[(String, String)],
    actual: &Result<Vec<Option<String>>, String>,
) -> Check {
    if wanted.is_empty() {
        return check(Name::Sysctls, State::NotApplicable, "the pod sets none");
    }
    let actual = match actual {
        Ok(actual) => actual,
        Err(reason) => return check(Name::Sysctls, State::Unknown, reason.as_str()),
    };
    let wrong: Vec<String> = wanted
        .iter()
        .zip(actual)
        .filter(|((_, wanted), actual)| actual.as_deref().map(words) != Some(words(wanted)))
        .map(|((name, wanted), actual)| match actual {
            Some(actual) => format!("{name} is {}, wanted {wanted}", words(actual).join(" ")),
            None => format!("{name} cannot be read, wanted {wanted}"),
        })
        .collect();
    match wrong.is_empty() {
        true => check(Name::Sysctls, State::Ok, format!("{} as in the pod", wanted.len())),
        false => check(Name::Sysctls, State::Failed, some(&wrong)),
    }
}

/// The kernel separates values by tabs, people by spaces.
fn words(value: &str) -> Vec<&str> {
    value.split_ascii_whitespace().collect()
}

/// The first few, and the number of the rest.
fn some(all: &[String]) -> String {
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests;
