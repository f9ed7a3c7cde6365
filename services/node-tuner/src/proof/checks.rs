//! The checks, written as pure functions.

use std::collections::BTreeMap;

use super::cgroups::Quota;
use super::interrupts::Interrupt;
use super::{Check, Name, State};
use crate::cpus::Cpus;

/// Maximum number of failures to name. Further failures are only counted.
const NAMED: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) cpus: Cpus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pinning {
    pub(crate) asked: u64,
    pub(crate) cpuset: Cpus,
    pub(crate) threads: Cpus,
}

pub(crate) fn check(check: Name, state: State, detail: impl Into<String>) -> Check {
    Check { check, state, detail: detail.into() }
}

/// Checks that no other container on the node may run on the container's CPUs.
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

/// Checks that container and pod have no quota.
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

/// No CPU outside the container shares a core with the container's CPUs. `siblings` contains the
/// siblings of each CPU.
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

/// Checks that the container's CPUs serve no interrupt of a network device.
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

/// Every process may open as many files as required. `lowest` is the lowest soft limit among the
/// container's processes.
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

/// Each sysctl has the pod's value. `actual` is the value inside the pod, or the reason why it
/// could not be read.
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

/// The kernel separates values with tabs, but people use spaces.
fn words(value: &str) -> Vec<&str> {
    value.split_ascii_whitespace().collect()
}

fn some(all: &[String]) -> String {
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Cpus {
        Cpus::from_list(text).expect(text)
    }

    fn neighbour(name: &str, list: &str) -> Neighbour {
        Neighbour { name: name.to_owned(), id: name.to_owned(), cpus: cpus(list) }
    }

    fn outcome(check: &Check) -> (State, &str) {
        (check.state, check.detail.as_str())
    }

    #[test]
    fn cpus_are_exclusive_if_nobody_else_may_run_there() {
        let none = "the kubelet's CPU manager gave it no exclusive CPUs (policy static?)";
        let other: &[(&str, &str)] = &[("default/other/main", "0,3")];
        for (asked, cpuset, threads, others, state, detail) in [
            (
                2,
                "1-2",
                "1-2",
                other,
                State::Ok,
                "CPU 1-2, shared with none of 1 containers".to_owned(),
            ),
            (
                2,
                "1-2",
                "1",
                other,
                State::Ok,
                "CPU 1-2, shared with none of 1 containers".to_owned(),
            ),
            (
                2,
                "0-3",
                "0-3",
                other,
                State::Failed,
                format!("requests 2, may run on 4 (CPU 0-3): {none}"),
            ),
            (
                2,
                "1-2",
                "1-3",
                other,
                State::Failed,
                "has CPU 1-2, but threads that may run on CPU 3".to_owned(),
            ),
            (
                2,
                "2-3",
                "2-3",
                other,
                State::Failed,
                "default/other/main may run on CPU 3".to_owned(),
            ),
            (
                1,
                "0",
                "0",
                &[("a", "0-3"), ("b", "0"), ("c", "1"), ("d", "0"), ("e", "0-1")],
                State::Failed,
                "a may run on CPU 0; b may run on CPU 0; d may run on CPU 0; and 1 more".to_owned(),
            ),
        ] {
            let seen = Pinning { asked, cpuset: cpus(cpuset), threads: cpus(threads) };
            let others: Vec<_> = others.iter().map(|(name, list)| neighbour(name, list)).collect();
            let others: Vec<_> = others.iter().collect();
            assert_eq!(outcome(&cpus_exclusive(&seen, &others)), (state, detail.as_str()));
        }
    }

    #[test]
    fn a_quota_of_the_container_or_of_its_pod_fails() {
        let quota = |limit, throttled| Quota { limit, period: 100_000, throttled };
        for (container, pod, state, detail) in [
            (quota(None, 0), quota(None, 0), State::Ok, "no quota, never throttled"),
            (quota(None, 2), quota(None, 1), State::Ok, "no quota; throttled 3 times before"),
            (
                quota(Some(200_000), 7),
                quota(None, 0),
                State::Failed,
                "the container has a quota of 2 CPUs, throttled 7 times",
            ),
            (
                quota(Some(150_000), 1),
                quota(Some(200_000), 0),
                State::Failed,
                "the container has a quota of 1.5 CPUs, throttled 1 times; the pod has a quota of 2 CPUs, \
                 throttled 0 times",
            ),
        ] {
            assert_eq!(outcome(&no_cfs_quota(&container, &pod)), (state, detail));
        }
    }

    #[test]
    fn cores_are_whole_if_no_sibling_is_outside() {
        let smt: BTreeMap<u32, Cpus> = [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")]
            .map(|(cpu, all)| (cpu, cpus(all)))
            .into();
        let plain: BTreeMap<u32, Cpus> = [(0, cpus("0")), (1, cpus("1"))].into();
        let nothing = BTreeMap::new();
        for (cpuset, siblings, state, detail) in [
            ("1,3", &smt, State::Ok, "CPU 1,3 are whole cores"),
            ("0-3", &smt, State::Ok, "CPU 0-3 are whole cores"),
            ("1", &smt, State::Failed, "CPU 3 shares a core with CPU 1 (full-pcpus-only?)"),
            ("0-1", &smt, State::Failed, "CPU 2-3 shares a core with CPU 0-1 (full-pcpus-only?)"),
            ("1", &plain, State::NotApplicable, "no two CPUs share a core"),
            ("1", &nothing, State::Unknown, "the kernel does not show which CPUs share a core"),
        ] {
            assert_eq!(outcome(&whole_cores(&cpus(cpuset), siblings)), (state, detail));
        }
    }

    #[test]
    fn interrupts_of_network_devices_are_elsewhere() {
        let interrupt =
            |number, list| Interrupt { number, device: "eth0".to_owned(), cpus: cpus(list) };
        let two = Ok(vec![interrupt(38, "1"), interrupt(39, "0")]);
        for (cpuset, interrupts, state, detail) in [
            ("2-3", &two, State::Ok, "2 interrupts of network devices, none there"),
            ("1-3", &two, State::Failed, "interrupt 38 of eth0 is on CPU 1"),
            (
                "0-1",
                &two,
                State::Failed,
                "interrupt 38 of eth0 is on CPU 1; interrupt 39 of eth0 is on CPU 0",
            ),
            (
                "1",
                &Ok(Vec::new()),
                State::NotApplicable,
                "no network device of the node has interrupts",
            ),
            ("1", &Err("because".to_owned()), State::Unknown, "because"),
        ] {
            assert_eq!(outcome(&interrupts_elsewhere(&cpus(cpuset), interrupts)), (state, detail));
        }
    }

    #[test]
    fn open_files_reach_what_is_wanted() {
        for (lowest, state, detail) in [
            (1024, State::Failed, "soft limit 1024, at least 65536 wanted"),
            (65535, State::Failed, "soft limit 65535, at least 65536 wanted"),
            (65536, State::Ok, "soft limit 65536, at least 65536 wanted"),
            (u64::MAX, State::Ok, "soft limit unlimited, at least 65536 wanted"),
        ] {
            assert_eq!(outcome(&open_files(lowest, 65536)), (state, detail));
        }
    }

    #[test]
    fn sysctls_are_as_the_pod_asks() {
        let wanted = [
            ("net.ipv4.ip_local_port_range".to_owned(), "1024 65535".to_owned()),
            ("net.core.somaxconn".to_owned(), "65535".to_owned()),
        ];
        let read = |first: Option<&str>, second: Option<&str>| {
            Ok(vec![first.map(str::to_owned), second.map(str::to_owned)])
        };
        for (actual, state, detail) in [
            (read(Some("1024\t65535"), Some("65535\n")), State::Ok, "2 as in the pod"),
            (
                read(Some("32768\t60999"), Some("65535")),
                State::Failed,
                "net.ipv4.ip_local_port_range is 32768 60999, wanted 1024 65535",
            ),
            (
                read(Some("1024 65535"), None),
                State::Failed,
                "net.core.somaxconn cannot be read, wanted 65535",
            ),
            (Err("not permitted".to_owned()), State::Unknown, "not permitted"),
        ] {
            assert_eq!(outcome(&sysctls(&wanted, &actual)), (state, detail));
        }
        let none = sysctls(&[], &Err("not permitted".to_owned()));
        assert_eq!(outcome(&none), (State::NotApplicable, "the pod sets none"));
    }
}
