//! Tables of inputs and the expected results.

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
        (2, "1-2", "1-2", other, State::Ok, "CPU 1-2, shared with none of 1 containers".to_owned()),
        (2, "1-2", "1", other, State::Ok, "CPU 1-2, shared with none of 1 containers".to_owned()),
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
        (2, "2-3", "2-3", other, State::Failed, "default/other/main may run on CPU 3".to_owned()),
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
    let smt: BTreeMap<u32, Cpus> =
        [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")].map(|(cpu, all)| (cpu, cpus(all))).into();
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
