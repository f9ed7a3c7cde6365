//! Reads the server's cgroup limits for CPU time and memory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::view::Files;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttling {
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
    pub(crate) throttled: Duration,
}

impl Throttling {
    /// Sums over this process's cgroup and its visible ancestors, or `None` if no cgroup has quota
    /// counters. Any of these quotas can throttle the server, and a cgroup without a quota counts
    /// nothing.
    pub(crate) fn read() -> Option<Self> {
        Self::read_below(Path::new("/"))
    }

    fn read_below(root: &Path) -> Option<Self> {
        let files = Files { root };
        let location = files.cgroups().locate("cpu")?;
        let texts = location.directories.iter().map(|at| files.text(at.join("cpu.stat")));
        texts.flatten().filter_map(|text| Self::parse(&text)).reduce(|one, other| Throttling {
            periods: one.periods.saturating_add(other.periods),
            throttled_periods: one.throttled_periods.saturating_add(other.throttled_periods),
            throttled: one.throttled.saturating_add(other.throttled),
        })
    }

    /// Parses `cpu.stat` from cgroup v1 (sched-bwc.rst, in nanoseconds) or v2 (cgroup-v2.rst, in
    /// microseconds). In v2, the lines exist only if the cgroup has the controller.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
            values.find_map(|value| value.strip_prefix(' ')?.parse::<u64>().ok())
        };
        let nanos = || value("throttled_time").map(Duration::from_nanos);
        Some(Throttling {
            periods: value("nr_periods")?,
            throttled_periods: value("nr_throttled")?,
            throttled: value("throttled_usec").map(Duration::from_micros).or_else(nanos)?,
        })
    }
}

/// Larger values mean that there is no limit: cgroup v1 shows the largest multiple of the page
/// size.
const NO_LIMIT: u64 = 1 << 62;

/// Smallest memory limit, in bytes, of this process's cgroup and its visible ancestors, or `None`
/// if there is no limit.
pub(crate) fn memory_limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<u64> {
    let files = Files { root };
    let location = files.cgroups().locate("memory")?;
    let name = if location.v1 { "memory.limit_in_bytes" } else { "memory.max" };
    let limit = |at: &PathBuf| files.text(at.join(name))?.trim().parse::<u64>().ok();
    location.directories.iter().filter_map(limit).filter(|&bytes| bytes < NO_LIMIT).min()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    const COUNTED: Throttling = Throttling {
        periods: 20,
        throttled_periods: 3,
        throttled: Duration::from_micros(1_500_000),
    };

    #[test]
    fn v1_of_the_cgroup_and_its_ancestors() {
        let cpu = "sys/fs/cgroup/cpu,cpuacct";
        let tree = Tree::new(
            "throttling-v1",
            &[
                ("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/pods/a\n0::/\n"),
                (
                    "proc/self/mountinfo",
                    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
                ),
                (
                    &format!("{cpu}/pods/a/cpu.stat"),
                    "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
                ),
                (
                    &format!("{cpu}/pods/cpu.stat"),
                    "nr_periods 15\nnr_throttled 2\nthrottled_time 1400000000\n",
                ),
                (
                    &format!("{cpu}/cpu.stat"),
                    "nr_periods 5\nnr_throttled 1\nthrottled_time 100000000\n",
                ),
            ],
        );
        assert_eq!(Throttling::read_below(tree.root()), Some(COUNTED));
    }

    #[test]
    fn v2_with_and_without_the_controller() {
        let usage = "usage_usec 9000\nuser_usec 8000\nsystem_usec 1000\n";
        let counted = "nr_periods 20\nnr_throttled 3\nthrottled_usec 1500000\nnr_bursts 0\n";
        for (name, text, want) in
            [("with", format!("{usage}{counted}"), Some(COUNTED)), ("without", usage.into(), None)]
        {
            let tree = Tree::new(
                &format!("throttling-v2-{name}"),
                &[
                    ("proc/self/cgroup", "0::/a\n"),
                    (
                        "proc/self/mountinfo",
                        "33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                    ),
                    ("sys/fs/cgroup/a/cpu.stat", &text),
                ],
            );
            assert_eq!(Throttling::read_below(tree.root()), want, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        assert_eq!(Throttling::read_below(Tree::new("throttling-none", &[]).root()), None);
        for text in [
            "",
            "nr_periods 20\nnr_throttled 3\n",
            "nr_periods -1\nnr_throttled 3\nthrottled_time 4\n",
            "nr_periods20\nnr_throttled 3\nthrottled_time 4\n",
        ] {
            assert_eq!(Throttling::parse(text), None, "{text:?}");
        }
    }

    fn v2(name: &str, own: &str, pod: &str) -> Option<u64> {
        let mounted = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::new(
            name,
            &[
                ("proc/self/cgroup", "0::/pod/a\n"),
                ("proc/self/mountinfo", mounted),
                ("sys/fs/cgroup/pod/a/memory.max", own),
                ("sys/fs/cgroup/pod/memory.max", pod),
            ],
        );
        limit_below(tree.root())
    }

    #[test]
    fn v2_smallest_of_the_hierarchy() {
        assert_eq!(v2("memory-own", "1048576\n", "max\n"), Some(1_048_576));
        assert_eq!(v2("memory-pod", "max\n", "4096\n"), Some(4096));
        assert_eq!(v2("memory-none", "max\n", "max\n"), None);
    }

    #[test]
    fn v1_without_a_limit() {
        let mounted = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let tree = Tree::new(
            "memory-v1",
            &[
                ("proc/self/cgroup", "4:memory:/a\n"),
                ("proc/self/mountinfo", mounted),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        assert_eq!(limit_below(tree.root()), None);
    }
}
