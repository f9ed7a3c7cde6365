use std::path::Path;

use super::{Check, Subject, at_least};

/// Oldest kernel that is known to work: the kernel of RHEL 8.
pub(super) const KERNEL: (u64, u64) = (4, 18);

pub(super) const NEW_KERNEL: &str = "use a distribution with Linux 4.18 or newer";

/// Enough for 10,000 connections plus the process's files, logs and sockets.
const OPEN_FILES: u64 = 16_384;

pub(super) fn checks(root: &Path) -> Vec<Check> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let cgroups = root.join("sys/fs/cgroup/cgroup.controllers").is_file();
    vec![
        kernel(read("proc/sys/kernel/osrelease").trim()),
        cgroup(cgroups),
        open_files(&read("proc/self/limits")),
        cpu_manager(&read("var/lib/kubelet/cpu_manager_state")),
    ]
}

fn kernel(release: &str) -> Check {
    match at_least(release, KERNEL.0, KERNEL.1) {
        true => Subject::Kernel.passed(release),
        false => Subject::Kernel.failed(format!("{release:?}"), NEW_KERNEL),
    }
}

fn cgroup(unified: bool) -> Check {
    match unified {
        true => Subject::Cgroups.passed("mounted at /sys/fs/cgroup"),
        // Replicas read both versions; kubelets do not.
        false => Subject::Cgroups.warning(
            "version 1, on which kubelets from 1.35 on refuse to start",
            "boot with systemd.unified_cgroup_hierarchy=1",
        ),
    }
}

/// Hard limit in `/proc/self/limits` (proc_pid_limits(5)).
fn open_files(limits: &str) -> Check {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("unknown");
    let enough = hard == "unlimited" || hard.parse().is_ok_and(|hard: u64| hard >= OPEN_FILES);
    match enough {
        true => Subject::OpenFiles.passed(format!("up to {hard} per process")),
        false => Subject::OpenFiles.failed(
            format!("up to {hard} per process; 10,000 connections need {OPEN_FILES}"),
            format!("set LimitNOFILE={OPEN_FILES} or more in containerd's systemd unit"),
        ),
    }
}

fn cpu_manager(state: &str) -> Check {
    let state: serde_json::Value = serde_json::from_str(state).unwrap_or_default();
    match state["policyName"].as_str() {
        None => Subject::CpuManager.passed("no kubelet runs on this machine yet"),
        Some("static") => Subject::CpuManager.passed("static"),
        Some(policy) => Subject::CpuManager.warning(
            format!("{policy}, so that pods share CPUs"),
            "set cpuManagerPolicy: static and a CPU reservation in the kubelet's configuration",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn judge(files: &[(&str, &str)]) -> Vec<Outcome> {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        checks(root.path()).into_iter().map(|check| check.outcome).collect()
    }

    #[test]
    fn a_machine_is_judged_by_its_files() {
        let (kernel, limits) = ("proc/sys/kernel/osrelease", "proc/self/limits");
        let state = "var/lib/kubelet/cpu_manager_state";
        let good = [
            (kernel, "6.1.0-18-amd64\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io\n"),
            (limits, "Limit  Soft Limit  Hard Limit\nMax open files  1024  1048576  files\n"),
            (state, "{\"policyName\": \"static\"}"),
        ];
        assert_eq!(judge(&good), [Outcome::Passed; 4]);
        assert_eq!(judge(&good[..3]), [Outcome::Passed; 4], "the kubelet comes later");
        let bad = [
            (kernel, "3.10.0-1160.el7\n"),
            (limits, "Max open files  1024  4096  files\n"),
            (state, "{\"policyName\": \"none\"}"),
        ];
        use Outcome::{Failed, Warning};
        assert_eq!(judge(&bad), [Failed, Warning, Failed, Warning]);
    }
}
