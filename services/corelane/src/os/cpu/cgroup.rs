//! Parsers for the kernel's cgroup and CPU files. They do not access files, and they accept any
//! text. Unreadable input means that the value is unknown.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Maximum CPU number, more than any kernel supports (`CONFIG_NR_CPUS`).
const MAX_CPUS: usize = 1 << 16;

const MAX_PATH: usize = 4096;

/// Parses an ascending list of CPUs or NUMA nodes such as `0-3,8` (cpuset(7), "List format").
/// `None` if it is invalid.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        // The kernel writes the list in ascending order without overlap. Without this check, a
        // short text could expand to a long list.
        if first > last || last >= MAX_CPUS || cpus.last().is_some_and(|&before| first <= before) {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Only digits are accepted, whereas `parse` would also accept a sign.
fn number(text: &str) -> Option<usize> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// CPUs that `cpu.max`, such as `150000 100000`, allows, or `None` for `max` (no limit).
pub(crate) fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota = words.next()?;
    // The period is optional in writes, but always present in reads.
    cfs_quota(quota, words.next()?)
}

/// CPUs that `cpu.cfs_quota_us` and `cpu.cfs_period_us` allow, or `None` for -1 (no limit).
pub(crate) fn cfs_quota(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (number(quota.trim())?, number(period.trim())?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// Whether `cpuset.cpus.partition` contains a valid partition: `root` or `isolated`, not `member`
/// or `root invalid (...)`.
pub(crate) fn is_partition(text: &str) -> bool {
    matches!(text.trim(), "root" | "isolated")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// cgroup v1 `cpu.shares`. The value 1024 is both the default and the value for a request of
    /// one CPU.
    Shares(u64),
    /// cgroup v2 `cpu.weight`, which defaults to 100.
    Weight(u64),
}

impl Weight {
    pub(crate) fn read_shares(text: &str) -> Option<Self> {
        number(text.trim()).map(|n| Weight::Shares(n as u64))
    }

    pub(crate) fn read_weight(text: &str) -> Option<Self> {
        number(text.trim()).map(|n| Weight::Weight(n as u64))
    }

    /// Whether a container that requests exactly `cpus` CPUs from Kubernetes has this value: 1024
    /// shares per CPU. For cgroup v2, the runtime converts shares to a weight: originally linearly
    /// (KEP-2254), and since runc 1.3.2 and crun 1.23 along a curve through 1024 -> 100.
    pub(crate) fn requests(self, cpus: usize) -> bool {
        let shares = cpus as f64 * 1024.0;
        match self {
            Weight::Shares(n) => n as f64 == shares,
            Weight::Weight(n) => {
                let linear = 1.0 + ((shares - 2.0) * 9999.0 / 262_142.0).floor();
                let log = shares.log2();
                let curve = 10_f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0);
                // Runtimes round up, and 1024 is a borderline case.
                n as f64 == linear || (n as f64 - curve).abs() < 1.0
            }
        }
    }

    pub(crate) fn is_default(self) -> bool {
        matches!(self, Weight::Shares(1024) | Weight::Weight(100))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Shares(n) => write!(f, "cpu.shares of {n}"),
            Weight::Weight(n) => write!(f, "cpu.weight of {n}"),
        }
    }
}

/// A line of `/proc/self/cgroup` (cgroups(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Controllers of a v1 hierarchy, or empty for v2.
    controllers: Vec<String>,
    path: String,
}

pub(crate) fn memberships(text: &str) -> Vec<Membership> {
    let read = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        number(id)?;
        let controllers = controllers.split(',').filter(|name| !name.is_empty());
        let controllers = controllers.map(str::to_owned).collect();
        let usable = path.starts_with('/') && path.len() <= MAX_PATH;
        usable.then(|| Membership { controllers, path: path.to_owned() })
    };
    text.lines().filter_map(read).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    root: String,
    point: String,
    /// The v1 mount options, which include the controllers, or `None` for v2.
    options: Option<Vec<String>>,
}

/// Parses the cgroup mounts in `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
pub(crate) fn mounts(text: &str) -> Vec<Mount> {
    let read = |line: &str| {
        // A lone hyphen ends the optional fields.
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
        let mut filesystem = filesystem.split(' ');
        let options = match filesystem.next()? {
            "cgroup2" => None,
            "cgroup" => Some(filesystem.nth(1)?.split(',').map(str::to_owned).collect()),
            _ => return None,
        };
        Some(Mount { root, point, options })
    };
    text.lines().filter_map(read).collect()
}

fn unescape(field: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let plain = |text: String, (from, to): (&str, &str)| text.replace(from, to);
    // The backslash is replaced last, so that it does not start another escape.
    escapes.into_iter().fold(field.to_owned(), plain)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) v1: bool,
    pub(crate) directories: Vec<PathBuf>,
}

/// Finds the directories of `controller`, for example `cpu`. In hybrid mode, a controller is in v1
/// or v2, never in both. Falls back to v2.
pub(crate) fn locate(
    members: &[Membership],
    mounts: &[Mount],
    controller: &str,
) -> Option<Location> {
    let names = |list: &Vec<String>| list.iter().any(|name| name == controller);
    let v1 = members.iter().find(|member| names(&member.controllers));
    let member = v1.or_else(|| members.iter().find(|member| member.controllers.is_empty()))?;
    let fits = |mount: &&Mount| match &mount.options {
        Some(options) => v1.is_some() && names(options),
        None => v1.is_none(),
    };
    let path = Path::new(&member.path);
    let shows = |mount: &&Mount| path.starts_with(&mount.root);
    // A container may also see other hierarchies, such as the host's in another directory.
    let mount = mounts.iter().filter(fits).find(shows).or_else(|| mounts.iter().find(fits))?;
    let directories = below(path, &mount.root).into_iter().map(|directory| {
        let point = Path::new(&mount.point);
        // Joining an empty path would add a slash.
        if directory.as_os_str().is_empty() { point.to_owned() } else { point.join(directory) }
    });
    Some(Location { v1: v1.is_some(), directories: directories.collect() })
}

/// Returns `path` relative to `root`, followed by its ancestors: `b/c`, `b` and the empty path for
/// `/a/b/c` and `/a`. A path outside `root` yields the mount point itself, for example `/../x`
/// after a process left its cgroup namespace (cgroup_namespaces(7)).
fn below<'a>(path: &'a Path, root: &str) -> Vec<&'a Path> {
    let relative = path.strip_prefix(root).unwrap_or(Path::new(""));
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let inside = relative.components().all(plain);
    let relative = if inside { relative } else { Path::new("") };
    relative.ancestors().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        let cases: [(&str, Option<&[usize]>); 15] = [
            ("0-3,8\n", Some(&[0, 1, 2, 3, 8])),
            ("0", Some(&[0])),
            ("7,9-10", Some(&[7, 9, 10])),
            ("\n", Some(&[])),
            ("", Some(&[])),
            ("1023", Some(&[1023])),
            ("3-1", None),
            ("1,0", None),
            ("0-3,2", None),
            ("-1", None),
            ("+1", None),
            ("0-", None),
            ("0-99999999", None),
            ("99999999999999999999999", None),
            ("all", None),
        ];
        for (text, want) in cases {
            assert_eq!(cpu_list(text).as_deref(), want, "{text:?}");
        }
    }

    #[test]
    fn quotas() {
        let cases = [
            ("150000 100000\n", Some(1.5)),
            ("max 100000\n", None),
            ("max", None),
            ("50000", None),
            ("0 100000", None),
            ("100000 0", None),
            ("-1 100000", None),
            ("", None),
            ("18446744073709551615 1", Some(u64::MAX as f64)),
            ("18446744073709551616 1", None),
        ];
        for (text, want) in cases {
            assert_eq!(cpu_max(text), want, "{text:?}");
        }
        assert_eq!(cfs_quota("200000\n", "100000\n"), Some(2.0));
        assert_eq!(cfs_quota("-1\n", "100000\n"), None);
    }

    #[test]
    fn partitions() {
        let valid = ["root\n", "isolated\n"];
        let others = ["member\n", "root invalid (Cpu list in cpuset.cpus not exclusive)\n", ""];
        assert!(valid.into_iter().all(is_partition));
        assert!(!others.into_iter().any(is_partition));
    }

    #[test]
    fn requests() {
        // Weights from both conversions, as the runtimes write them, and neighbouring values.
        let cases = [
            (Weight::Shares(1024), 1, true),
            (Weight::Shares(4096), 4, true),
            (Weight::Shares(4096), 3, false),
            (Weight::Shares(1023), 1, false),
            (Weight::Shares(2), 1, false),
            (Weight::Weight(39), 1, true),
            (Weight::Weight(100), 1, true),
            (Weight::Weight(79), 2, true),
            (Weight::Weight(174), 2, true),
            (Weight::Weight(157), 4, true),
            (Weight::Weight(303), 4, true),
            (Weight::Weight(79), 1, false),
            (Weight::Weight(100), 2, false),
            (Weight::Weight(1), 1, false),
            (Weight::Weight(10_000), 64, false),
        ];
        for (weight, cpus, want) in cases {
            assert_eq!(weight.requests(cpus), want, "{weight} for {cpus} CPUs");
        }
    }

    const V1_MEMBERS: &str = "12:cpuset:/kubepods/pod1/c\n4:cpu,cpuacct:/kubepods/pod1/c\n\
                              1:name=systemd:/init.scope\n0::/system.slice/a:b.service\n";
    const V1_MOUNTS: &str = "\
        30 20 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 master:2 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 /kubepods/pod1 /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn locations(members: &str, mountinfo: &str, controller: &str) -> Option<(bool, Vec<String>)> {
        let location = locate(&memberships(members), &mounts(mountinfo), controller)?;
        let text = |path: PathBuf| path.to_str().expect("ASCII").to_owned();
        Some((location.v1, location.directories.into_iter().map(text).collect()))
    }

    #[test]
    fn directories_of_a_controller() {
        let located = |members, mounts, controller| {
            locations(members, mounts, controller).expect("a location")
        };
        let (v1, cpu) = located(V1_MEMBERS, V1_MOUNTS, "cpu");
        assert!(v1);
        let root = "/sys/fs/cgroup/cpu,cpuacct";
        let below = ["/kubepods/pod1/c", "/kubepods/pod1", "/kubepods", ""];
        assert_eq!(cpu, below.map(|below| format!("{root}{below}")));

        // The mount shows the pod's cgroup, as in a container.
        let (_, cpuset) = located(V1_MEMBERS, V1_MOUNTS, "cpuset");
        assert_eq!(cpuset, ["/sys/fs/cgroup/cpuset/c", "/sys/fs/cgroup/cpuset"]);

        // Controllers missing from v1 are in v2.
        let (v1, memory) = located(V1_MEMBERS, V1_MOUNTS, "memory");
        assert!(!v1);
        assert_eq!(memory[0], "/sys/fs/cgroup/unified/system.slice/a:b.service");

        let v2 = "1 0 0:26 /../.. /mnt/a\\040b rw - cgroup2 c rw\n\
                  2 0 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw";
        assert_eq!(located("0::/\n", v2, "cpu").1, ["/sys/fs/cgroup"]);
        assert_eq!(located("0::/a\n", v2, "cpu").1, ["/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        // The process left its cgroup namespace, so the mount point does not show a path to it.
        assert_eq!(located("0::/../x\n", v2, "cpu").1, ["/sys/fs/cgroup"]);
        let escaped = v2.lines().next().expect("a line");
        assert_eq!(located("0::/\n", escaped, "cpu").1, ["/mnt/a b"]);

        assert_eq!(locations("", V1_MOUNTS, "cpu"), None);
        assert_eq!(locations(V1_MEMBERS, "", "cpu"), None);
    }

    #[test]
    fn the_backslash_is_unescaped_last() {
        assert_eq!(unescape("a\\040b\\134040"), "a b\\040");
    }

    #[test]
    fn no_text_makes_a_reader_panic() {
        let lists = ["0-3,8", "150000 100000", "max 100000", "root invalid (x)", "-1"];
        let read = |text: &str| {
            let _ = (cpu_list(text), cpu_max(text), cfs_quota(text, text), is_partition(text));
            let weights = [Weight::read_shares(text), Weight::read_weight(text)];
            weights.into_iter().flatten().for_each(|weight| {
                weight.requests(usize::MAX);
            });
            let _ = locations(text, V1_MOUNTS, "cpu");
            let _ = locations(V1_MEMBERS, text, "cpu");
        };
        // Miri is about 1,000 times slower.
        let step = if cfg!(miri) { 251 } else { 1 };
        for good in lists.into_iter().chain([V1_MEMBERS, V1_MOUNTS]) {
            for at in (0..good.len()).step_by(step) {
                let (before, after) = good.split_at(at);
                read(before);
                for edit in ["\0", "-", ":", " ", "/", "\n", "é", "99999999999999999999"] {
                    read(&format!("{before}{edit}{after}"));
                    read(&format!("{before}{edit}{}", &after[1..]));
                }
            }
        }
    }
}
