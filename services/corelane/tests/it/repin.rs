//! Lanes adapt to cpuset and quota changes at run time. The tests are skipped with a message unless
//! there are writable cgroups and two CPUs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::process::run_alone;
use crate::support::{BoxError, Running, builder};
use bytes::Bytes;
use corelane::{Incoming, Lane, Lanes, Pin, SlowLanes};
use http::{Request, Response};
use http_body_util::Full;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use tower::util::BoxCloneSyncService;

/// Runs the process in its own cgroup and moves it back when dropped.
struct Cpuset {
    directory: PathBuf,
    own: PathBuf,
    cpus: [usize; 2],
}

impl Cpuset {
    /// Moves this process to a new cpuset with two CPUs, or returns the reason why not.
    fn enter() -> Result<Cpuset, String> {
        let allowed = affinity(None);
        let &[first, second, ..] = allowed.as_slice() else {
            return Err(format!("the CPUs {allowed:?} are fewer than two"));
        };
        let (own, base) = own_cgroup("cpuset")?;
        let directory = base.join(format!("corelane-repin-{}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        // From here on, dropping this value cleans up.
        let cpuset = Cpuset { directory, own, cpus: [first, second] };
        cpuset.fill(&base).map_err(|error| format!("{}: {error}", cpuset.directory.display()))?;
        Ok(cpuset)
    }

    fn fill(&self, base: &Path) -> std::io::Result<()> {
        // A new v1 cpuset is empty and needs memory nodes before it accepts processes. In v2 an
        // empty cpuset inherits.
        let nodes = fs::read(base.join("cpuset.mems")).unwrap_or_default();
        if !nodes.trim_ascii().is_empty() {
            fs::write(self.directory.join("cpuset.mems"), nodes)?;
        }
        self.try_allow(&self.cpus)?;
        join(&self.directory)
    }

    fn try_allow(&self, cpus: &[usize]) -> std::io::Result<()> {
        let list: Vec<_> = cpus.iter().map(usize::to_string).collect();
        fs::write(self.directory.join("cpuset.cpus"), list.join(","))
    }

    /// Changes the live cpuset, as the kubelet does.
    fn allow(&self, cpus: &[usize]) {
        self.try_allow(cpus).expect("the cpuset is ours");
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        leave(&self.directory, &self.own);
    }
}

/// Quota of a cgroup: the cpuset's own cgroup in v2, and a separate cgroup in v1.
struct Quota {
    directory: PathBuf,
    own: Option<PathBuf>,
}

impl Quota {
    fn enter(cpuset: &Cpuset) -> Result<Quota, String> {
        if cpuset.directory.join("cpu.max").exists() {
            return Ok(Quota { directory: cpuset.directory.clone(), own: None });
        }
        let (own, base) = own_cgroup("cpu")?;
        let directory = base.join(format!("corelane-repin-{}", std::process::id()));
        let made = fs::create_dir(&directory).and_then(|()| join(&directory));
        made.map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Quota { directory, own: Some(own) })
    }

    /// Sets the quota, like an in-place pod resize.
    fn set(&self, cpus: Option<f64>) {
        let period = 100_000;
        let quota = cpus.map(|cpus| ((cpus * f64::from(period)) as u64).to_string());
        let (file, text) = match &self.own {
            None => ("cpu.max", format!("{} {period}", quota.as_deref().unwrap_or("max"))),
            Some(_) => ("cpu.cfs_quota_us", quota.unwrap_or("-1".to_owned())),
        };
        fs::write(self.directory.join(file), text).expect("the cgroup is ours");
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            leave(&self.directory, own);
        }
    }
}

fn leave(cgroup: &Path, own: &Path) {
    if let Err(error) = join(own).and_then(|()| fs::remove_dir(cgroup)) {
        say(&format!("{} is left behind: {error}", cgroup.display()));
    }
}

fn join(cgroup: &Path) -> std::io::Result<()> {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string())
}

/// This process's cgroup for a controller (v1 or v2), and the directory in which to create another
/// cgroup.
fn own_cgroup(controller: &str) -> Result<(PathBuf, PathBuf), String> {
    let members = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let path = |fits: &dyn Fn(&str) -> bool| {
        let mut lines = members.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines.find(|(controllers, _)| fits(controllers)).map(|(_, path)| path[1..].to_owned())
    };
    if let Some(path) = path(&|controllers| controllers.split(',').any(|it| it == controller)) {
        let own = Path::new("/sys/fs/cgroup").join(controller).join(path);
        return Ok((own.clone(), own));
    }
    let path = path(&str::is_empty).ok_or("this process is in no cgroup")?;
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(path);
    // Uses a sibling, because v2 cgroups other than the root do not delegate controllers if they
    // contain processes.
    let base = own.parent().filter(|_| own != root).unwrap_or(root).to_owned();
    let given = fs::read_to_string(base.join("cgroup.subtree_control")).unwrap_or_default();
    if !given.split_ascii_whitespace().any(|it| it == controller) {
        return Err(format!("cgroups in {} have no {controller}", base.display()));
    }
    Ok((own, base))
}

/// Prints text that is visible even if the test passes, because the harness does not capture it.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "repin: {text}");
}

/// `None` if the environment does not permit it.
fn enter() -> Option<Cpuset> {
    Cpuset::enter().inspect_err(|reason| say(&format!("SKIPPED: {reason}"))).ok()
}

fn affinity(thread: Option<Pid>) -> Vec<usize> {
    let mask = sched_getaffinity(thread).expect("a mask");
    (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
}

/// Thread of a lane (`lane`) or slow lane (`slow`).
fn thread(kind: &str, index: usize) -> Pid {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
    let ids = tasks.map(|task| task.expect("a thread").file_name());
    let named = |id: &std::ffi::OsString| {
        let name = fs::read_to_string(Path::new("/proc/self/task").join(id).join("comm"));
        name.is_ok_and(|name| name.trim() == format!("{kind}-{index}"))
    };
    let id = ids.into_iter().find(named).expect("the thread of a lane");
    Pid::from_raw(id.to_str().and_then(|id| id.parse().ok()).expect("a number")).expect("not 0")
}

/// Returns the CPU to which the lane is pinned.
fn service(lane: &Lane) -> crate::support::TestService {
    let lane = lane.clone();
    BoxCloneSyncService::new(tower::service_fn(move |_request: Request<Incoming>| {
        let text = format!("{:?}", lane.cpu());
        async move { Ok::<_, BoxError>(Response::new(Full::<Bytes>::from(text))) }
    }))
}

fn start(lanes: usize, pin: Pin) -> Running {
    let slow_lanes = SlowLanes { unpinned: true, ..SlowLanes::default() };
    let builder = builder().lanes(Lanes::Count(lanes)).pin(pin).slow_lanes(Some(slow_lanes));
    Running::start(builder, service)
}

/// Waits until the metric and the thread affinities match.
fn wait_for_lanes(server: &Running, lanes: &[Option<usize>], all: &[usize]) {
    let info = |lane: usize, cpu: Option<usize>| {
        let (name, pinned) = (cpu.map_or(String::new(), |cpu| cpu.to_string()), cpu.is_some());
        format!("corelane_lane_info{{lane=\"{lane}\",cpu=\"{name}\",pinned=\"{pinned}\"}} 1")
    };
    server.wait_until(&format!("on {lanes:?} of {all:?}"), || {
        let metrics = server.admin_get("/metrics").text();
        lanes.iter().enumerate().all(|(lane, &cpu)| {
            let wanted = cpu.map_or(all.to_vec(), |cpu| vec![cpu]);
            let moved = |kind| affinity(Some(thread(kind, lane))) == wanted;
            metrics.contains(&info(lane, cpu)) && ["lane", "slow"].into_iter().all(moved)
        })
    });
}

fn repins(server: &Running, lane: usize) -> f64 {
    server.metric(&format!("corelane_lane_repins_total{{lane=\"{lane}\"}}"))
}

#[test]
fn lanes_follow_a_cpuset_that_changes() {
    run_alone("repin::", 5);
}

#[test]
#[ignore = "moves its process to another cgroup: run by lanes_follow_a_cpuset_that_changes"]
fn a_pinned_lane_follows_the_cpuset() {
    let Some(cpuset) = enter() else { return };
    let [first, second] = cpuset.cpus;
    let server = start(1, Pin::On);
    wait_for_lanes(&server, &[Some(first)], &cpuset.cpus);
    assert_eq!(server.get("/").text(), format!("{:?}", Some(first)));
    assert_eq!(server.metric("corelane_cpus{source=\"cpuset\"}"), 2.0);
    assert_eq!(repins(&server, 0), 0.0);

    cpuset.allow(&[second]);
    wait_for_lanes(&server, &[Some(second)], &[second]);
    assert_eq!(server.get("/").text(), format!("{:?}", Some(second)));
    assert_eq!(server.metric("corelane_cpus{source=\"cpuset\"}"), 1.0);
    assert_eq!(repins(&server, 0), 1.0);

    cpuset.allow(&[first]);
    wait_for_lanes(&server, &[Some(first)], &[first]);
    assert_eq!(repins(&server, 0), 2.0);
}

#[test]
#[ignore = "moves its process to another cgroup: run by lanes_follow_a_cpuset_that_changes"]
fn lanes_are_unpinned_while_they_have_too_few_cpus() {
    let Some(cpuset) = enter() else { return };
    let [first, second] = cpuset.cpus;
    let server = start(2, Pin::On);
    wait_for_lanes(&server, &[Some(first), Some(second)], &cpuset.cpus);

    cpuset.allow(&[second]);
    wait_for_lanes(&server, &[None, None], &[second]);
    assert_eq!(server.get("/").text(), "None");

    cpuset.allow(&cpuset.cpus);
    wait_for_lanes(&server, &[Some(first), Some(second)], &cpuset.cpus);
    assert_eq!([repins(&server, 0), repins(&server, 1)], [2.0, 2.0]);
}

#[test]
#[ignore = "moves its process to another cgroup: run by lanes_follow_a_cpuset_that_changes"]
fn a_lane_whose_mask_is_changed_is_pinned_again() {
    let Some(cpuset) = enter() else { return };
    let [first, second] = cpuset.cpus;
    let server = start(2, Pin::On);
    let both = [Some(first), Some(second)];
    wait_for_lanes(&server, &both, &cpuset.cpus);
    let mut all = CpuSet::new();
    cpuset.cpus.iter().for_each(|&cpu| all.set(cpu));
    for (kind, times) in [("lane", 1.0), ("slow", 2.0)] {
        sched_setaffinity(Some(thread(kind, 1)), &all).expect("a thread of this process");
        server.wait_until("pinned again", || repins(&server, 1) == times);
        wait_for_lanes(&server, &both, &cpuset.cpus);
    }
    assert_eq!(repins(&server, 0), 0.0, "the other lane was where it should be");
}

#[test]
#[ignore = "moves its process to another cgroup: run by lanes_follow_a_cpuset_that_changes"]
fn lanes_that_are_never_pinned_are_left_to_the_kernel() {
    let Some(cpuset) = enter() else { return };
    let [_, second] = cpuset.cpus;
    let server = start(2, Pin::Off);
    wait_for_lanes(&server, &[None, None], &cpuset.cpus);
    cpuset.allow(&[second]);
    wait_for_lanes(&server, &[None, None], &[second]);
    server.wait_until("seen", || server.metric("corelane_cpus{source=\"affinity\"}") == 1.0);
    cpuset.allow(&cpuset.cpus);
    wait_for_lanes(&server, &[None, None], &cpuset.cpus);
    assert_eq!(repins(&server, 0), 0.0);
}

#[test]
#[ignore = "moves its process to another cgroup: run by lanes_follow_a_cpuset_that_changes"]
fn a_quota_that_is_set_and_removed_is_seen_and_unpins_meanwhile() {
    let Some(cpuset) = enter() else { return };
    let [first, _] = cpuset.cpus;
    let quota = match Quota::enter(&cpuset) {
        Ok(quota) => quota,
        Err(reason) => return say(&format!("SKIPPED: {reason}")),
    };
    // The default weight is equivalent to a request for one CPU, which makes the CPU exclusive.
    cpuset.allow(&[first]);
    let server = start(1, Pin::Auto);
    wait_for_lanes(&server, &[Some(first)], &[first]);
    let series = "corelane_cpus{source=\"quota\"}";
    assert!(!server.admin_get("/metrics").text().contains(series));

    quota.set(Some(0.5));
    wait_for_lanes(&server, &[None], &[first]);
    assert_eq!(server.metric(series), 0.5);

    quota.set(None);
    wait_for_lanes(&server, &[Some(first)], &[first]);
    assert!(!server.admin_get("/metrics").text().contains(series));
}
