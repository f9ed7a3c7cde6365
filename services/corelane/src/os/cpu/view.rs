//! Reads CPU topology and limits before the lanes start.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_getaffinity};

use super::cgroup::{self, Location, Membership, Mount, Weight};

/// The only input to [`plan`](super::plan::plan), so that tests can use tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpuView {
    /// This thread's affinity in ascending order, which the kernel limits to the cpuset.
    pub(crate) affinity: Vec<usize>,
    /// The machine's online CPUs, or empty if unknown.
    pub(crate) online: Vec<usize>,
    /// CPUs of the cgroup's cpuset, if readable.
    pub(crate) cpuset: Option<Vec<usize>>,
    /// Whether the kernel reserves the cpuset's CPUs for this cgroup. The kubelet does not use such
    /// partitions, so false proves nothing.
    pub(crate) exclusive: bool,
    /// The tightest CFS quota in CPUs, or `None` if there is no quota.
    pub(crate) quota: Option<f64>,
    /// The cgroup's share under contention, if readable.
    pub(crate) weight: Option<Weight>,
    /// Position of each CPU in `affinity`. A missing CPU counts as a separate core on node 0.
    pub(crate) topology: BTreeMap<usize, Position>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// The core's lowest CPU (SMT siblings share a core).
    pub(crate) core: usize,
    pub(crate) node: usize,
}

impl CpuView {
    /// Reads the state of the calling thread and the machine.
    pub(crate) fn read() -> io::Result<Self> {
        Ok(Self::read_below(Path::new("/"), affinity_of_this_thread()?))
    }

    /// Reads files below `root` for a thread with this affinity. Unreadable values are treated as
    /// unknown rather than as errors, because a container may hide any file.
    pub(crate) fn read_below(root: &Path, affinity: Vec<usize>) -> Self {
        let files = Files { root };
        let cgroups = files.cgroups();
        let (cpuset, exclusive) =
            cgroups.locate("cpuset").map_or((None, false), |at| files.cpuset(&at));
        let (quota, weight) = files.share(&cgroups);
        CpuView {
            online: files.list("/sys/devices/system/cpu/online").unwrap_or_default(),
            topology: files.topology(&affinity),
            affinity,
            cpuset,
            exclusive,
            quota,
            weight,
        }
    }

    /// Whether the quota and weight still match this view. The affinity mask follows the cpuset,
    /// but changes to the quota and weight are visible only in the files.
    pub(super) fn has_present_share(&self) -> bool {
        let files = Files { root: Path::new("/") };
        files.share(&files.cgroups()) == (self.quota, self.weight)
    }

    pub(crate) fn cpus(&self) -> Vec<usize> {
        let inside = |cpu: &usize| self.cpuset.as_ref().is_none_or(|set| set.contains(cpu));
        let cpus: Vec<_> = self.affinity.iter().copied().filter(inside).collect();
        // The kernel enforces the mask. A cpuset elsewhere does not apply to this thread.
        if cpus.is_empty() { self.affinity.clone() } else { cpus }
    }

    /// Number of CPUs from each known source, with the metric's labels.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let known = |cpus: &Vec<usize>| (!cpus.is_empty()).then_some(cpus.len() as f64);
        let counts = [
            ("online", known(&self.online)),
            ("cpuset", self.cpuset.as_ref().and_then(known)),
            ("affinity", known(&self.affinity)),
            ("quota", self.quota),
        ];
        counts.into_iter().filter_map(|(source, n)| Some((source, n?)))
    }

    pub(crate) fn position(&self, cpu: usize) -> Position {
        self.topology.get(&cpu).copied().unwrap_or(Position { core: cpu, node: 0 })
    }
}

pub(super) fn affinity_of_this_thread() -> io::Result<Vec<usize>> {
    Ok(members(&sched_getaffinity(None)?))
}

fn members(mask: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
}

pub(super) struct Cgroups {
    members: Vec<Membership>,
    mounts: Vec<Mount>,
}

impl Cgroups {
    pub(super) fn locate(&self, controller: &str) -> Option<Location> {
        cgroup::locate(&self.members, &self.mounts, controller)
    }
}

pub(super) struct Files<'a> {
    pub(super) root: &'a Path,
}

impl Files<'_> {
    pub(super) fn cgroups(&self) -> Cgroups {
        let text = |path| self.text(path).unwrap_or_default();
        Cgroups {
            members: cgroup::memberships(&text("/proc/self/cgroup")),
            mounts: cgroup::mounts(&text("/proc/self/mountinfo")),
        }
    }

    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        let bytes = fs::read(self.root.join(path.strip_prefix("/").unwrap_or(path))).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: impl AsRef<Path>) -> Option<Vec<usize>> {
        cgroup::cpu_list(&self.text(path)?)
    }

    /// The CPUs of the cpuset, and whether they are exclusive.
    fn cpuset(&self, location: &Location) -> (Option<Vec<usize>>, bool) {
        // Effective CPUs come first: configured CPUs are often unset in v2 and may be offline in v1
        // (cpusets.rst and cgroup-v2.rst in the kernel's admin guide).
        let names: &[&str] = match location.v1 {
            true => &["cpuset.effective_cpus", "cpuset.cpus"],
            false => &["cpuset.cpus.effective"],
        };
        // A v2 cgroup without the controller uses the cpuset of its nearest ancestor that has the
        // controller.
        let files =
            location.directories.iter().flat_map(|at| names.iter().map(|name| at.join(name)));
        let cpus = files.filter_map(|file| self.list(file)).find(|cpus| !cpus.is_empty());
        // Read only from this cgroup, because all cgroups below an ancestor share its CPUs.
        let own = |name: &str| self.text(location.directories.first()?.join(name));
        let exclusive = match location.v1 {
            true => own("cpuset.cpu_exclusive").is_some_and(|text| text.trim() == "1"),
            false => own("cpuset.cpus.partition").is_some_and(|text| cgroup::is_partition(&text)),
        };
        (cpus, exclusive)
    }

    fn share(&self, cgroups: &Cgroups) -> (Option<f64>, Option<Weight>) {
        let share = |at| (self.quota(&at), self.weight(&at));
        cgroups.locate("cpu").map_or((None, None), share)
    }

    /// The tightest quota of the cgroup and its visible ancestors, each of which limits its
    /// descendants.
    fn quota(&self, location: &Location) -> Option<f64> {
        let quota = |at: &PathBuf| match location.v1 {
            true => {
                let quota = self.text(at.join("cpu.cfs_quota_us"))?;
                cgroup::cfs_quota(&quota, &self.text(at.join("cpu.cfs_period_us"))?)
            }
            false => cgroup::cpu_max(&self.text(at.join("cpu.max"))?),
        };
        location.directories.iter().filter_map(quota).min_by(f64::total_cmp)
    }

    fn weight(&self, location: &Location) -> Option<Weight> {
        let own = location.directories.first()?;
        match location.v1 {
            true => Weight::read_shares(&self.text(own.join("cpu.shares"))?),
            false => Weight::read_weight(&self.text(own.join("cpu.weight"))?),
        }
    }

    /// Core and node of each CPU, described by sysfs-devices-system-cpu and sysfs-devices-node in
    /// the kernel's ABI documents.
    fn topology(&self, cpus: &[usize]) -> BTreeMap<usize, Position> {
        let nodes = self.list("/sys/devices/system/node/online").unwrap_or_default();
        let nodes: Vec<_> = nodes.into_iter().map(|node| (node, self.node_cpus(node))).collect();
        let position = |&cpu: &usize| {
            let of_cpu = |(_, cpus): &&(usize, Vec<usize>)| cpus.binary_search(&cpu).is_ok();
            let node = nodes.iter().find(of_cpu).map_or(0, |(node, _)| *node);
            (cpu, Position { core: self.core(cpu), node })
        };
        cpus.iter().map(position).collect()
    }

    fn node_cpus(&self, node: usize) -> Vec<usize> {
        self.list(format!("/sys/devices/system/node/node{node}/cpulist")).unwrap_or_default()
    }

    fn core(&self, cpu: usize) -> usize {
        let file = |name| format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
        // Linux before 5.3 has only the second name.
        let siblings = ["core_cpus_list", "thread_siblings_list"];
        let siblings = siblings.into_iter().find_map(|name| self.list(file(name)));
        siblings.and_then(|cpus| cpus.first().copied()).unwrap_or(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    impl Tree {
        fn view(&self, affinity: &[usize]) -> CpuView {
            CpuView::read_below(self.root(), affinity.to_vec())
        }
    }

    const V1_MOUNTS: &str = "\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
        33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2_MOUNT: &str = "33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn v1_with_the_tightest_quota_of_all_ancestors() {
        let cpu = "sys/fs/cgroup/cpu,cpuacct";
        let cpuset = "sys/fs/cgroup/cpuset/pods/a";
        let tree = Tree::new(
            "v1",
            &[
                ("proc/self/cgroup", "5:cpuset:/pods/a\n4:cpu,cpuacct:/pods/a\n0::/\n"),
                ("proc/self/mountinfo", V1_MOUNTS),
                ("sys/devices/system/cpu/online", "0-7\n"),
                (&format!("{cpu}/pods/a/cpu.cfs_quota_us"), "-1\n"),
                (&format!("{cpu}/pods/a/cpu.cfs_period_us"), "100000\n"),
                (&format!("{cpu}/pods/a/cpu.shares"), "2048\n"),
                (&format!("{cpu}/pods/cpu.cfs_quota_us"), "250000\n"),
                (&format!("{cpu}/pods/cpu.cfs_period_us"), "100000\n"),
                (&format!("{cpu}/cpu.cfs_quota_us"), "400000\n"),
                (&format!("{cpu}/cpu.cfs_period_us"), "100000\n"),
                (&format!("{cpuset}/cpuset.cpus"), "2-9\n"),
                (&format!("{cpuset}/cpuset.effective_cpus"), "2-3\n"),
                (&format!("{cpuset}/cpuset.cpu_exclusive"), "1\n"),
            ],
        );
        let view = tree.view(&[2, 3]);
        assert_eq!(view.online.len(), 8);
        assert_eq!(view.cpuset, Some(vec![2, 3]));
        assert!(view.exclusive);
        assert_eq!(view.quota, Some(2.5));
        assert_eq!(view.weight, Some(Weight::Shares(2048)));
        let counts: Vec<_> = view.counts().collect();
        assert_eq!(counts, [("online", 8.0), ("cpuset", 2.0), ("affinity", 2.0), ("quota", 2.5)]);
    }

    #[test]
    fn v1_as_a_container_sees_it_and_without_effective_cpus() {
        let mounts = "\
            31 30 0:27 /pods/a /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n\
            32 30 0:28 /pods/a /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n";
        let tree = Tree::new(
            "v1-container",
            &[
                ("proc/self/cgroup", "5:cpuset:/pods/a\n4:cpu:/pods/a\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"),
                ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/cpuset/cpuset.cpus", "4,6\n"),
                ("sys/fs/cgroup/cpuset/cpuset.cpu_exclusive", "0\n"),
            ],
        );
        let view = tree.view(&[4, 6, 7]);
        assert_eq!((view.quota, view.exclusive), (Some(0.5), false));
        assert_eq!(view.cpus(), [4, 6]);
    }

    #[test]
    fn v2_with_the_cpuset_of_the_nearest_ancestor_that_has_one() {
        let tree = Tree::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/a/b\n"),
                ("proc/self/mountinfo", V2_MOUNT),
                ("sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
                ("sys/fs/cgroup/a/cpuset.cpus.effective", "1-3\n"),
                ("sys/fs/cgroup/a/cpuset.cpus.partition", "root\n"),
                ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
                ("sys/fs/cgroup/a/b/cpu.weight", "79\n"),
            ],
        );
        let view = tree.view(&[1, 2, 3]);
        assert_eq!(view.cpuset, Some(vec![1, 2, 3]));
        assert!(!view.exclusive, "the partition is shared with other cgroups below it");
        assert_eq!(view.quota, Some(1.5));
        assert_eq!(view.weight, Some(Weight::Weight(79)));
    }

    #[test]
    fn v2_in_a_cgroup_namespace_with_a_partition() {
        let tree = Tree::new(
            "v2-container",
            &[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2_MOUNT),
                ("sys/fs/cgroup/cpuset.cpus.effective", "5\n"),
                ("sys/fs/cgroup/cpuset.cpus.partition", "isolated\n"),
                ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ],
        );
        let view = tree.view(&[5]);
        assert_eq!((view.cpuset, view.exclusive, view.quota), (Some(vec![5]), true, None));
    }

    #[test]
    fn hybrid_with_the_cpuset_in_v1_and_the_quota_in_v2() {
        let mounts = "\
            32 30 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::new(
            "hybrid",
            &[
                ("proc/self/cgroup", "3:cpuset:/x\n0::/y\n"),
                ("proc/self/mountinfo", mounts),
                ("sys/fs/cgroup/cpuset/x/cpuset.effective_cpus", "0-1\n"),
                ("sys/fs/cgroup/unified/y/cpu.max", "100000 100000\n"),
                ("sys/fs/cgroup/unified/y/cpuset.cpus.effective", "7\n"),
            ],
        );
        let view = tree.view(&[0, 1]);
        assert_eq!((view.cpuset, view.quota), (Some(vec![0, 1]), Some(1.0)));
    }

    #[test]
    fn siblings_and_nodes() {
        let cpu = "sys/devices/system/cpu";
        let tree = Tree::new(
            "topology",
            &[
                (&format!("{cpu}/cpu0/topology/core_cpus_list"), "0,4\n"),
                (&format!("{cpu}/cpu0/topology/thread_siblings_list"), "9\n"),
                (&format!("{cpu}/cpu4/topology/core_cpus_list"), "0,4\n"),
                (&format!("{cpu}/cpu5/topology/thread_siblings_list"), "1,5\n"),
                ("sys/devices/system/node/online", "0,2\n"),
                ("sys/devices/system/node/node0/cpulist", "0-3\n"),
                ("sys/devices/system/node/node2/cpulist", "4-5\n"),
            ],
        );
        let view = tree.view(&[0, 4, 5, 6]);
        let positions = view.topology.values().map(|at| (at.core, at.node));
        assert_eq!(positions.collect::<Vec<_>>(), [(0, 0), (0, 2), (1, 2), (6, 0)]);
    }

    #[test]
    fn nothing_to_read_is_nothing_known() {
        let view = Tree::new("empty", &[]).view(&[3]);
        let position = Position { core: 3, node: 0 };
        let topology = BTreeMap::from([(3, position)]);
        assert_eq!(view, CpuView { affinity: vec![3], topology, ..CpuView::default() });
        assert_eq!(view.cpus(), [3]);
        assert_eq!(view.position(9), Position { core: 9, node: 0 });
    }

    #[test]
    fn this_machine_can_be_read() {
        let view = CpuView::read().expect("a view");
        assert!(!view.cpus().is_empty());
        assert!(view.affinity.iter().all(|cpu| view.online.contains(cpu)), "{view:?}");
    }
}
