//! Reads the checks' input and runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::cgroups::{Cgroups, Quota};
use super::checks::{self, Neighbour, Pinning, check};
use super::interrupts::{self, Interrupt};
use super::processes::Processes;
use super::{Check, Container, ContainerProof, Name, NodeProof, Pod, PodProof, State, sysctls};
use crate::cpus::Cpus;
use crate::profile::Profile;
use crate::settings::Settings;
use crate::tree::Tree;

#[derive(Clone, Debug)]
pub(crate) struct Examiner {
    node: String,
    root: PathBuf,
    cgroups: PathBuf,
    interfaces: Vec<String>,
    /// Open files that a pod needs; `None` if the profile does not set it.
    nofile: Option<u64>,
}

/// IDs of containers with processes that the API server did not report.
pub(crate) type Strangers = BTreeSet<String>;

struct Node {
    cgroups: Cgroups,
    processes: Processes,
    siblings: BTreeMap<u32, Cpus>,
    interrupts: Result<Vec<Interrupt>, String>,
    neighbours: BTreeMap<PathBuf, Result<Vec<Neighbour>, String>>,
}

impl Examiner {
    pub(crate) fn new(settings: &Settings) -> Self {
        Examiner {
            node: settings.agent.node.clone(),
            root: settings.root.clone(),
            cgroups: settings.agent.cgroups.clone(),
            interfaces: settings.interfaces.clone(),
            nofile: settings
                .agent
                .nofile
                .or_else(|| Profile::new(&settings.profile, &settings.knobs).ok()?.nofile()),
        }
    }

    /// Examines the selected pods of the node.
    ///
    /// A *stranger* is a container that the API server does not list. A stranger that is not in
    /// `before` is ignored, because a container that is being created may briefly run on every CPU.
    /// A stranger that is still there in the next pass counts. In the first pass (`None`), all
    /// strangers count. Also returns the strangers of this pass.
    pub(crate) fn examine(
        &self,
        pods: &[Pod],
        before: Option<&Strangers>,
    ) -> (NodeProof, Strangers) {
        let selected = pods.iter().filter(|pod| pod.selected);
        let mut strangers = Strangers::new();
        let proofs = match self.node(pods, before, &mut strangers) {
            Ok(node) => selected.map(|pod| self.pod(&node, pod)).collect(),
            Err(reason) => selected.map(|pod| unseen(pod, &reason)).collect(),
        };
        (NodeProof::of(&self.node, proofs), strangers)
    }

    fn node(
        &self,
        pods: &[Pod],
        before: Option<&Strangers>,
        strangers: &mut Strangers,
    ) -> Result<Node, String> {
        let cgroups = Cgroups::find(&self.cgroups)?;
        let processes = Processes::new(&self.root);
        let mut neighbours = BTreeMap::new();
        let pinned = pods.iter().filter(|pod| pod.selected && pod.containers.iter().any(asks));
        for folder in pinned.filter_map(|pod| cgroups.pod(&pod.cgroup)) {
            neighbours.entry(Cgroups::kubelet(folder).to_owned()).or_insert_with(|| {
                neighbours_of(&cgroups, &processes, (folder, pods), (before, strangers))
            });
        }
        let siblings = siblings(&self.root);
        let interrupts = interrupts::find(&Tree::new(&self.root), &self.interfaces);
        Ok(Node { cgroups, processes, siblings, interrupts, neighbours })
    }

    fn pod(&self, node: &Node, pod: &Pod) -> PodProof {
        let Some(folder) = node.cgroups.pod(&pod.cgroup) else {
            return unseen(pod, &format!("no cgroup of the pod below {}", self.cgroups.display()));
        };
        let running = node.cgroups.containers(folder);
        let mut proofs = Vec::new();
        let mut seen_sysctls = None;
        for container in pod.containers.iter().filter(|it| it.checked) {
            let cgroup = running.iter().find(|(id, _)| Some(id) == container.id.as_ref());
            let pids = match cgroup {
                None if container.id.is_none() => Err("the container does not run".to_owned()),
                None => Err("no cgroup of the container in that of the pod".to_owned()),
                Some((_, cgroup)) => alive(node, cgroup).map(|pids| (cgroup, pids)),
            };
            proofs.push(match pids {
                Err(reason) => unseen_container(container, &reason),
                Ok((cgroup, pids)) => {
                    let mut proof = self.container(node, (pod, folder), (container, cgroup), &pids);
                    // All containers of a pod share its namespaces.
                    let check = seen_sysctls.get_or_insert_with(|| {
                        sysctls_of(&node.processes.folder(pids[0]), &pod.sysctls)
                    });
                    proof.checks.push(check.clone());
                    proof
                }
            });
        }
        proof_of(pod, proofs)
    }

    fn container(
        &self,
        node: &Node,
        (pod, folder): (&Pod, &Path),
        (container, cgroup): (&Container, &Path),
        pids: &[u32],
    ) -> ContainerProof {
        let cpuset = node.cgroups.cpuset(cgroup);
        let mut checks = match container.asked {
            None => not_pinned(pod),
            Some(asked) => match &cpuset {
                Err(reason) => each(&Name::ALL[..4], State::Unknown, reason),
                Ok(cpuset) => vec![
                    exclusive(node, folder, container, asked, cpuset, pids),
                    quotas(node, folder, cgroup),
                    checks::whole_cores(cpuset, &node.siblings),
                    checks::interrupts_elsewhere(cpuset, &node.interrupts),
                ],
            },
        };
        checks.push(self.open_files(node, pids));
        let cpus = cpuset.map_or_else(|_| String::new(), |it| it.to_string());
        let cpu_time = node.cgroups.cpu_time(cgroup);
        ContainerProof { container: container.name.clone(), cpus, cpu_time, checks }
    }

    fn open_files(&self, node: &Node, pids: &[u32]) -> Check {
        let Some(wanted) = self.nofile else {
            let words = "neither agent.nofile nor the profile says how many it needs";
            return check(Name::OpenFiles, State::NotApplicable, words);
        };
        match node.processes.open_files(pids) {
            Ok(Some(lowest)) => checks::open_files(lowest, wanted),
            Ok(None) => check(Name::OpenFiles, State::Unknown, "its processes have ended"),
            Err(reason) => check(Name::OpenFiles, State::Unknown, reason),
        }
    }
}

fn asks(container: &Container) -> bool {
    container.checked && container.asked.is_some()
}

/// A container's processes (at least one).
fn alive(node: &Node, cgroup: &Path) -> Result<Vec<u32>, String> {
    let pids = node.cgroups.processes(cgroup);
    let pids = pids.map_err(|error| format!("its processes cannot be read: {error}"))?;
    if pids.is_empty() {
        return Err("its cgroup has no process".to_owned());
    }
    // A process from another PID namespace appears as 0 (pid_namespaces(7)).
    if pids.contains(&0) || !node.processes.folder(pids[0]).exists() {
        return Err("its processes cannot be seen from here (hostPID?)".to_owned());
    }
    Ok(pids)
}

fn exclusive(
    node: &Node,
    folder: &Path,
    container: &Container,
    asked: u64,
    cpuset: &Cpus,
    pids: &[u32],
) -> Check {
    let unknown = |reason: &str| check(Name::CpusExclusive, State::Unknown, reason);
    let threads = match node.processes.cpus(pids) {
        Ok(threads) => threads,
        Err(reason) => return unknown(&reason),
    };
    match node.neighbours.get(Cgroups::kubelet(folder)) {
        Some(Ok(all)) => {
            let others: Vec<_> =
                all.iter().filter(|it| Some(&it.id) != container.id.as_ref()).collect();
            let seen = Pinning { asked, cpuset: cpuset.clone(), threads };
            checks::cpus_exclusive(&seen, &others)
        }
        Some(Err(reason)) => unknown(reason),
        None => unknown("its neighbours were not read"),
    }
}

fn quotas(node: &Node, pod: &Path, container: &Path) -> Check {
    let read: Result<[Quota; 2], String> =
        node.cgroups.quota(container).and_then(|own| Ok([own, node.cgroups.quota(pod)?]));
    match read {
        Ok([own, pod]) => checks::no_cfs_quota(&own, &pod),
        Err(reason) => check(Name::NoCfsQuota, State::Unknown, reason),
    }
}

fn sysctls_of(process: &Path, wanted: &[(String, String)]) -> Check {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    let read = if names.is_empty() { Ok(Vec::new()) } else { sysctls::read(process, &names) };
    checks::sysctls(wanted, &read)
}

/// All containers with processes that belong to this pod's kubelet. Strangers count only if they
/// were present in the previous pass.
fn neighbours_of(
    cgroups: &Cgroups,
    processes: &Processes,
    (pod, pods): (&Path, &[Pod]),
    (before, strangers): (Option<&Strangers>, &mut Strangers),
) -> Result<Vec<Neighbour>, String> {
    let mut found = Vec::new();
    for (uid, folder) in cgroups.of_same_kubelet(pod) {
        let known = pods.iter().find(|pod| pod.cgroup == uid);
        for (id, cgroup) in cgroups.containers(folder) {
            let pids = cgroups.processes(&cgroup).map_err(|error| error.to_string())?;
            let container = known.and_then(|pod| pod.containers.iter().find(|it| it.has(&id)));
            if container.is_none() {
                // The process that holds a pod's namespaces may run on all CPUs
                // (containerd/containerd#10155), but it sleeps.
                let sandbox = pids.len() == 1 && processes.name(pids[0]) == "pause";
                let new = before.is_some_and(|before| !before.contains(&id));
                strangers.insert(id.clone());
                if sandbox || new {
                    continue;
                }
            }
            let pod =
                known.map_or_else(|| uid.to_owned(), |it| format!("{}/{}", it.namespace, it.name));
            let name =
                container.map_or_else(|| id.chars().take(12).collect(), |it| it.name.clone());
            let cpus = processes.cpus(&pids)?;
            found.push(Neighbour { name: format!("{pod}/{name}"), id, cpus });
        }
    }
    Ok(found)
}

fn siblings(root: &Path) -> BTreeMap<u32, Cpus> {
    let cpus = root.join("sys/devices/system/cpu");
    let entries = fs::read_dir(&cpus).into_iter().flatten().flatten();
    let numbers =
        entries.filter_map(|it| it.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
    let read = numbers.filter_map(|cpu: u32| {
        // Newer kernels call the file core_cpus_list (Documentation/admin-guide/cputopology.rst).
        let file = cpus.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        Some((cpu, Cpus::from_list(&fs::read_to_string(file).ok()?)?))
    });
    read.collect()
}

fn each(names: &[Name], state: State, reason: &str) -> Vec<Check> {
    names.iter().map(|&name| check(name, state, reason)).collect()
}

fn not_pinned(pod: &Pod) -> Vec<Check> {
    let reason = match pod.guaranteed {
        true => "the container requests no whole CPUs",
        false => "the pod is not Guaranteed: exclusive CPUs need requests that equal the limits",
    };
    each(&Name::ALL[..4], State::NotApplicable, reason)
}

fn unseen_container(container: &Container, reason: &str) -> ContainerProof {
    let checks = each(&Name::ALL, State::Unknown, reason);
    let (cpus, cpu_time) = (String::new(), None);
    ContainerProof { container: container.name.clone(), cpus, cpu_time, checks }
}

fn unseen(pod: &Pod, reason: &str) -> PodProof {
    let containers = pod.containers.iter().filter(|it| it.checked);
    proof_of(pod, containers.map(|it| unseen_container(it, reason)).collect())
}

fn proof_of(pod: &Pod, containers: Vec<ContainerProof>) -> PodProof {
    PodProof {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        proven: containers.iter().all(ContainerProof::proven),
        containers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "3f0e3a8c-8a3e-4a55-9b2f-0c5f1ad2b001";
    const OTHER: &str = "3f0e3a8c-8a3e-4a55-9b2f-0c5f1ad2b002";

    /// A machine where the kubelet assigned CPU 1 to a server.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().expect("folder"));
            machine.container(SERVER, "server", ("1", "server"), 100);
            machine
        }

        fn container(&self, pod: &str, id: &str, (cpus, process): (&str, &str), pid: u32) {
            let write = |file: String, text: String| {
                let file = self.0.path().join(file);
                fs::create_dir_all(file.parent().expect("a folder")).expect("folder");
                fs::write(file, text).expect("file");
            };
            let below = format!("kubepods/pod{pod}/{id}");
            write(format!("cgroups/cpuset/{below}/cpuset.cpus"), format!("{cpus}\n"));
            write(format!("cgroups/cpuset/{below}/cgroup.procs"), format!("{pid}\n"));
            write(format!("cgroups/cpu/{below}/cpu.cfs_quota_us"), "-1\n".to_owned());
            write(format!("proc/{pid}/comm"), format!("{process}\n"));
            let status = format!("Name:\t{process}\nCpus_allowed_list:\t{cpus}\n");
            write(format!("proc/{pid}/task/{pid}/status"), status);
        }

        fn examiner(&self) -> Examiner {
            Examiner {
                node: "node".to_owned(),
                root: self.0.path().to_owned(),
                cgroups: self.0.path().join("cgroups"),
                interfaces: Vec::new(),
                nofile: None,
            }
        }

        /// Returns the server's state after each change. The API server's data stays the same.
        fn looks(&self, changes: &[&dyn Fn()]) -> Vec<State> {
            let container = Container {
                name: "main".to_owned(),
                id: Some("server".to_owned()),
                asked: Some(1),
                checked: true,
            };
            let server = Pod {
                name: "server".to_owned(),
                uid: SERVER.to_owned(),
                cgroup: SERVER.to_owned(),
                selected: true,
                guaranteed: true,
                containers: vec![container],
                ..Pod::default()
            };
            let mut strangers = None;
            let look = |change: &&dyn Fn()| {
                change();
                let (proof, found) =
                    self.examiner().examine(std::slice::from_ref(&server), strangers.as_ref());
                strangers = Some(found);
                let checks = &proof.pods[0].containers[0].checks;
                checks
                    .iter()
                    .find(|it| it.check == Name::CpusExclusive)
                    .expect("it is checked")
                    .state
            };
            changes.iter().map(look).collect()
        }
    }

    #[test]
    fn a_container_that_is_being_made_takes_no_cpu_away() {
        let machine = Machine::new();
        let looks = machine.looks(&[
            &|| {},
            // The runtime's own program, before it executes the program that holds the pod's
            // namespaces.
            &|| machine.container(OTHER, "sandbox", ("0-1", "runc:[2:INIT]"), 200),
            &|| machine.container(OTHER, "sandbox", ("0-1", "pause"), 200),
            &|| {},
        ]);
        assert_eq!(looks, [State::Ok; 4]);
    }

    #[test]
    fn a_stranger_that_stays_is_found() {
        let machine = Machine::new();
        let come = || machine.container(OTHER, "stranger", ("0-1", "sh"), 200);
        assert_eq!(machine.looks(&[&|| {}, &come, &|| {}]), [State::Ok, State::Ok, State::Failed]);
        // In the first pass, any process may be older than the agent.
        assert_eq!(machine.looks(&[&|| {}]), [State::Failed]);
    }
}
