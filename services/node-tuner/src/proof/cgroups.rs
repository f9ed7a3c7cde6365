//! The cgroups of pods and containers.
//!
//! The kubelet creates a pod's cgroup in `kubepods/[burstable/|besteffort/]pod<uid>` or, with the
//! systemd cgroup driver, in `kubepods.slice/[..]/kubepods-[..]pod<uid with _ for ->.slice`. Below
//! it, the runtime creates a container's cgroup in `<id>` or `<runtime>-<id>.scope`. Everything may
//! be below another cgroup (`cgroupRoot` in the kubelet's configuration).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cpus::Cpus;

/// Maximum search depth for pods: kind has two more levels than other clusters.
const DEPTH: usize = 7;

/// CRI-O runs a monitor process per container in a cgroup with the same ID.
const MONITOR: &str = "crio-conmon-";

#[derive(Debug)]
pub(crate) struct Cgroups {
    cpuset: PathBuf,
    cpu: PathBuf,
    /// The hierarchy that counts CPU time, if any.
    cpuacct: Option<PathBuf>,
    /// Whether a single hierarchy has all controllers.
    unified: bool,
    /// The directory of each pod by UID, relative to the hierarchies.
    pods: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Microseconds per period; `None` if unlimited.
    pub(crate) limit: Option<u64>,
    pub(crate) period: u64,
    pub(crate) throttled: u64,
}

impl Quota {
    pub(crate) fn share(&self) -> Option<f64> {
        Some(self.limit? as f64 / self.period.max(1) as f64)
    }
}

impl Cgroups {
    pub(crate) fn find(mounted: &Path) -> Result<Self, String> {
        let unified = mounted.join("cgroup.controllers").exists();
        let one = |names: &[&str]| names.iter().map(|it| mounted.join(it)).find(|it| it.is_dir());
        let own = || Some(mounted.to_owned());
        let (cpuset, cpu, cpuacct) = match unified {
            true => (own(), own(), own()),
            false => {
                (one(&["cpuset"]), one(&["cpu", "cpu,cpuacct"]), one(&["cpuacct", "cpu,cpuacct"]))
            }
        };
        let (Some(cpuset), Some(cpu)) = (cpuset, cpu) else {
            let at = mounted.display();
            return Err(format!(
                "{at}: neither cgroup v2 nor the hierarchies cpu and cpuset of v1"
            ));
        };
        let mut pods = BTreeMap::new();
        collect(&cpuset, Path::new(""), DEPTH, &mut pods)
            .map_err(|error| format!("{}: {error}", cpuset.display()))?;
        Ok(Cgroups { cpuset, cpu, cpuacct, unified, pods })
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&Path> {
        self.pods.get(uid).map(PathBuf::as_path)
    }

    /// Pods of the same kubelet with their directories, because several nodes may share a machine.
    pub(crate) fn of_same_kubelet<'a>(
        &'a self,
        pod: &'a Path,
    ) -> impl Iterator<Item = (&'a str, &'a Path)> {
        let root = Self::kubelet(pod);
        let all = self.pods.iter().map(|(uid, folder)| (uid.as_str(), folder.as_path()));
        all.filter(move |(_, folder)| Self::kubelet(folder) == root)
    }

    /// The kubelet's parent directory of all pods.
    pub(crate) fn kubelet(pod: &Path) -> &Path {
        pod.ancestors().skip(1).filter(|it| is_root(it)).last().unwrap_or(Path::new(""))
    }

    /// IDs and directories of a pod's containers, including the sandbox, which the API does not
    /// list.
    pub(crate) fn containers(&self, pod: &Path) -> Vec<(String, PathBuf)> {
        let names = folders(&self.cpuset.join(pod)).unwrap_or_default();
        let names = names.into_iter().filter(|name| !name.starts_with(MONITOR));
        names.map(|name| (id(&name).to_owned(), pod.join(name))).collect()
    }

    /// The processes of a cgroup and its descendants, which some runtimes create.
    pub(crate) fn processes(&self, cgroup: &Path) -> io::Result<Vec<u32>> {
        let folder = self.cpuset.join(cgroup);
        let listed = match fs::read_to_string(folder.join("cgroup.procs")) {
            Err(error) if gone(&error) => return Ok(Vec::new()),
            listed => listed?,
        };
        let mut found: Vec<u32> = listed.lines().filter_map(|line| line.parse().ok()).collect();
        for name in folders(&folder)? {
            found.extend(self.processes(&cgroup.join(name))?);
        }
        Ok(found)
    }

    pub(crate) fn cpuset(&self, cgroup: &Path) -> Result<Cpus, String> {
        let file = match self.unified {
            true => "cpuset.cpus.effective",
            false => "cpuset.cpus",
        };
        let file = self.cpuset.join(cgroup).join(file);
        let text = read(&file)?;
        Cpus::from_list(&text).ok_or_else(|| format!("{}: no list of CPUs: {text}", file.display()))
    }

    pub(crate) fn quota(&self, cgroup: &Path) -> Result<Quota, String> {
        let folder = self.cpu.join(cgroup);
        let limits = match self.unified {
            true => read(&folder.join("cpu.max"))?,
            false => {
                let quota = read(&folder.join("cpu.cfs_quota_us"))?;
                format!("{quota} {}", read(&folder.join("cpu.cfs_period_us"))?)
            }
        };
        let mut numbers = limits.split_ascii_whitespace();
        // "max" in v2, -1 in v1.
        let limit = numbers.next().and_then(|it| it.parse().ok());
        let period = numbers.next().and_then(|it| it.parse().ok()).unwrap_or(100_000);
        let statistics = read(&folder.join("cpu.stat"))?;
        let throttled = statistics.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        let throttled = throttled.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
        Ok(Quota { limit, period, throttled })
    }

    /// Includes descendants (cpuacct.rst, cgroup-v2.rst).
    pub(crate) fn cpu_time(&self, cgroup: &Path) -> Option<Duration> {
        let folder = self.cpuacct.as_ref()?.join(cgroup);
        if !self.unified {
            return Some(Duration::from_nanos(
                read(&folder.join("cpuacct.usage")).ok()?.parse().ok()?,
            ));
        }
        let statistics = read(&folder.join("cpu.stat")).ok()?;
        let usage = statistics.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Duration::from_micros(usage.parse().ok()?))
    }
}

fn collect(
    hierarchy: &Path,
    below: &Path,
    depth: usize,
    pods: &mut BTreeMap<String, PathBuf>,
) -> io::Result<()> {
    for name in folders(&hierarchy.join(below))? {
        let folder = below.join(&name);
        match uid(&name) {
            Some(uid) => {
                pods.insert(uid, folder);
            }
            None if depth > 0 => collect(hierarchy, &folder, depth - 1, pods)?,
            None => {}
        }
    }
    Ok(())
}

/// Empty if the directory is gone.
fn folders(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if gone(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    Ok(folders.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Whether the cgroup was removed, possibly between open and read (19 is ENODEV).
fn gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(19)
}

fn uid(folder: &str) -> Option<String> {
    let name = folder.strip_suffix(".slice").unwrap_or(folder);
    let (before, uid) = name.rsplit_once("pod")?;
    let is_uid =
        uid.len() > 8 && uid.bytes().all(|it| it.is_ascii_hexdigit() || b"-_".contains(&it));
    let alone = before.is_empty() || before.ends_with('-');
    (is_uid && alone).then(|| uid.replace('_', "-"))
}

fn id(folder: &str) -> &str {
    let name = folder.strip_suffix(".scope").unwrap_or(folder);
    name.rsplit_once('-').map_or(name, |(_, id)| id)
}

fn is_root(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    name == "kubepods" || name == "kubepods.slice" || name.ends_with("-kubepods.slice")
}

fn read(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_pods_are_known_by_their_names() {
        let plain = "3f0e3a8c-8a3e-4a55-9b2f-0c5f1ad2b001";
        for (folder, expected) in [
            (format!("pod{plain}"), Some(plain)),
            (format!("kubepods-pod{}.slice", plain.replace('-', "_")), Some(plain)),
            (format!("kubepods-burstable-pod{}.slice", plain.replace('-', "_")), Some(plain)),
            (
                "pod0123456789abcdef0123456789abcdef".to_owned(),
                Some("0123456789abcdef0123456789abcdef"),
            ),
            ("kubepods".to_owned(), None),
            ("kubepods.slice".to_owned(), None),
            ("kubelet-kubepods.slice".to_owned(), None),
            ("podman.slice".to_owned(), None),
            (format!("xpod{plain}"), None),
        ] {
            assert_eq!(uid(&folder).as_deref(), expected, "{folder}");
        }
    }

    #[test]
    fn containers_are_known_by_their_ids() {
        for name in
            ["abc123", "cri-containerd-abc123.scope", "crio-abc123.scope", "docker-abc123.scope"]
        {
            assert_eq!(id(name), "abc123");
        }
    }

    #[test]
    fn a_kubelet_is_known_by_its_outermost_folder() {
        for (pod, root) in [
            ("node1/kubepods/pod1", "node1/kubepods"),
            ("kubepods/burstable/pod1", "kubepods"),
            ("kubepods.slice/kubepods-pod1.slice", "kubepods.slice"),
            (
                "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice",
                "kubelet.slice/kubelet-kubepods.slice",
            ),
            ("elsewhere/pod1", ""),
        ] {
            assert_eq!(Cgroups::kubelet(Path::new(pod)), Path::new(root), "{pod}");
        }
    }
}
