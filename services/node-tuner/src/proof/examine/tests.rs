use super::*;

const SERVER: &str = "3f0e3a8c-8a3e-4a55-9b2f-0c5f1ad2b001";
const OTHER: &str = "3f0e3a8c-8a3e-4a55-9b2f-0c5f1ad2b002";

/// A machine whose kubelet assigned CPU 1 to a server.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().expect("folder"));
        machine.container(SERVER, "server", ("1", "server"), 100);
        machine
    }

    /// Creates a container with one process, both on these CPUs.
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

    /// The result for the server after each change. The data of the API server does not change.
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
            checks.iter().find(|it| it.check == Name::CpusExclusive).expect("it is checked").state
        };
        changes.iter().map(look).collect()
    }
}

#[test]
fn a_container_that_is_being_made_takes_no_cpu_away() {
    let machine = Machine::new();
    let looks = machine.looks(&[
        &|| {},
        // The runtime's own program, before it executes the one that holds the pod's namespaces.
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
    // In the first pass any process may be an old one.
    assert_eq!(machine.looks(&[&|| {}]), [State::Failed]);
}
