//! The kernel's CPU files: CPU lists, quotas, and the directories of cgroups.

use std::path::{Component, Path};

use corelane::fuzzing::{
    self, cfs_quota, cpu_max, directories, is_partition, requests, throttling,
};

use super::{Target, text};

/// CPU lists (cpuset(7)) are ascending, bounded, and unchanged after writing and parsing.
pub(super) const CPU_LIST: Target = Target {
    name: "cpu_list",
    run: |input| text(input, cpu_list),
    seeds: &[("backwards", b"3-1"), ("mixed", b"7,9-10,12"), ("ranges", b"0-3,8\n")],
};

fn cpu_list(text: &str) {
    let Some(cpus) = fuzzing::cpu_list(text) else { return };
    assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]), "{cpus:?}");
    assert!(cpus.last().is_none_or(|&last| last < 1 << 16), "{cpus:?}");
    let written: Vec<_> = cpus.iter().map(usize::to_string).collect();
    assert_eq!(fuzzing::cpu_list(&written.join(",")), Some(cpus.clone()));
    // Each run of neighbouring CPUs is one range, as the kernel writes it.
    let ranges = cpus.chunk_by(|a, b| a + 1 == *b);
    let ranges: Vec<_> = ranges.map(|run| format!("{}-{}", run[0], run[run.len() - 1])).collect();
    assert_eq!(fuzzing::cpu_list(&ranges.join(",")), Some(cpus));
}

/// A cgroup's quotas, weights and partitions, and quota counters.
///
/// A quota is finite and positive, and equal in both cgroup versions. A weight matches only a few
/// CPU counts, and shares match at most one.
pub(super) const QUOTA: Target = Target {
    name: "quota",
    run: |input| text(input, quota),
    seeds: &[
        ("cpu.max", b"150000 100000\n"),
        (
            "cpu.stat",
            b"nr_periods 20\n\
            nr_throttled 3\n\
            throttled_time 1500000000\n",
        ),
        ("none", b"max 100000\n"),
        ("partition", b"root invalid (Cpu list in cpuset.cpus not exclusive)\n"),
        ("shares", b"4096\n"),
        ("weight", b"79\n"),
    ],
};

const MOST: usize = 1024;

fn quota(text: &str) {
    let quota = cpu_max(text);
    assert!(quota.is_none_or(|cpus| cpus.is_finite() && cpus > 0.0), "{quota:?}");
    let mut words = text.split_ascii_whitespace();
    if let (Some(first), Some(second)) = (words.next(), words.next()) {
        assert_eq!(cfs_quota(first, second), quota);
        assert_eq!(cfs_quota(&format!(" {first}\n"), &format!("{second}\n")), quota);
    }
    let [weight, shares] = requests(text, MOST);
    assert!(shares.len() <= 1, "{shares:?}");
    // Only adjacent CPU counts map to the same weight.
    assert!(weight.len() <= 4, "{weight:?}");
    // Any time that fits into the kernel's file is preserved: v1 uses nanoseconds, and v2 uses
    // microseconds.
    if let Some((periods, throttled, nanos)) = throttling(text) {
        let time = |name, value: u128| text.contains(name) && text.contains(&value.to_string());
        assert!(text.contains(&periods.to_string()) && text.contains(&throttled.to_string()));
        assert!(time("throttled_usec ", nanos / 1000) || time("throttled_time ", nanos));
    }
    assert!(!is_partition(text) || quota.is_none() && weight.is_empty() && shares.is_empty());
}

/// The directories of a controller's files, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
///
/// Each directory is the parent of the one before, up to the mount point. Any mount point is parsed
/// correctly from the kernel's escaped form, whatever characters it contains.
///
/// The input is one file, a `---` line and the other file.
pub(super) const CGROUP_PLACE: Target = Target {
    name: "cgroup_place",
    run: |input| text(input, cgroup_place),
    seeds: &[
        ("v1", b"12:cpuset:/kubepods/pod1/c\n\
            4:cpu,cpuacct:/kubepods/pod1/c\n\
            1:name=systemd:/init.scope\n\
            0::/system.slice/a:b.service\n\
            ---\n\
            30 20 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 master:2 - cgroup cgroup rw,cpu,cpuacct\n\
            32 30 0:28 /kubepods/pod1 /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"),
        ("v2", b"0::/../other/c\n\
            ---\n\
            25 20 0:23 /pod /sys/fs/cg\\040roup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"),
    ],
};

fn cgroup_place(text: &str) {
    let (members, mountinfo) = text.split_once("\n---\n").unwrap_or((text, ""));
    for controller in ["cpu", "cpuset"] {
        let Some(found) = directories(members, mountinfo, controller) else { continue };
        let point = found.last().expect("the mount point itself");
        for pair in found.windows(2) {
            assert_eq!(pair[0].parent(), Some(pair[1].as_path()), "{found:?}");
        }
        let below = found[0].strip_prefix(point).expect("it is below the mount point");
        assert!(below.components().all(|part| matches!(part, Component::Normal(_))), "{found:?}");
    }
    if !text.contains('\0') {
        comes_back(&format!("/{text}"));
    }
}

fn comes_back(point: &str) {
    let escape = |c: char| match c {
        ' ' => "\\040".to_owned(),
        '\t' => "\\011".to_owned(),
        '\n' => "\\012".to_owned(),
        '\\' => "\\134".to_owned(),
        other => other.to_string(),
    };
    let escaped: String = point.chars().map(escape).collect();
    let mountinfo = format!("30 20 0:26 / {escaped} rw - cgroup2 cgroup2 rw\n");
    let found = directories("0::/\n", &mountinfo, "cpu").expect("a place");
    assert_eq!(found, [Path::new(point)]);
}
