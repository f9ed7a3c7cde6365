//! `corelane doctor`: checks the prerequisites before an install, and the installed components
//! afterwards.

mod cluster;
mod machine;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use corelane_service::process;

/// Check a cluster that runs Corelane, or with --pre the prerequisites of an install
///
/// Each failed check prints a fix and its section in docs/doctor.md. The command changes nothing.
#[derive(Args, Debug)]
#[command(after_help = "Example: corelane doctor --pre --registry registry.example\n\n\
                  Exit codes: 0 if no check failed, 1 if one failed, 64 for a bad flag. Warnings fail nothing.")]
pub(crate) struct Doctor {
    /// Before an install: check this machine as a node, and the cluster if there is a kubeconfig
    #[arg(long)]
    pre: bool,
    /// Image registry that this machine must be able to reach
    #[arg(long, value_name = "HOST[:PORT]", requires = "pre")]
    registry: Option<String>,
    /// Kubernetes API configuration [default: the first file in KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Each subject has a section with the same title in docs/doctor.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Kernel,
    Cgroups,
    OpenFiles,
    CpuManager,
    Kubernetes,
    CustomResources,
    Registry,
    Pods,
    NodeTuning,
    Versions,
}

impl Subject {
    const ALL: [(Subject, &str); 10] = [
        (Subject::Kernel, "Kernel"),
        (Subject::Cgroups, "Cgroup v2"),
        (Subject::OpenFiles, "Open files"),
        (Subject::CpuManager, "CPU manager policy"),
        (Subject::Kubernetes, "Kubernetes version"),
        (Subject::CustomResources, "Custom resources"),
        (Subject::Registry, "Image registry"),
        (Subject::Pods, "Pods"),
        (Subject::NodeTuning, "Node tuning"),
        (Subject::Versions, "Versions"),
    ];

    fn title(self) -> &'static str {
        Subject::ALL.into_iter().find(|(each, _)| *each == self).map_or("", |(_, title)| title)
    }

    fn passed(self, found: impl Into<String>) -> Check {
        Check { subject: self, found: found.into(), outcome: Outcome::Passed, fix: String::new() }
    }

    fn warning(self, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { outcome: Outcome::Warning, fix: fix.into(), ..self.passed(found) }
    }

    fn failed(self, found: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { outcome: Outcome::Failed, fix: fix.into(), ..self.passed(found) }
    }
}

#[derive(Debug)]
struct Check {
    subject: Subject,
    found: String,
    outcome: Outcome,
    /// A single line, or empty if there is nothing to fix.
    fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// Corelane works, but below its potential.
    Warning,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Healthy = 0,
    Failing = 1,
}

impl Doctor {
    pub(crate) fn run(&self) -> ExitCode {
        let checks = match process::block_on(self.checks(), true) {
            Ok(checks) => checks,
            Err(error) => {
                process::report(crate::NAME, &error);
                return ExitCode::FAILURE;
            }
        };
        let (text, verdict) = report(&checks);
        process::print(&text);
        ExitCode::from(verdict as u8)
    }

    async fn checks(&self) -> Vec<Check> {
        let mut checks = if self.pre { machine::checks(Path::new("/")) } else { Vec::new() };
        if let Some(registry) = &self.registry {
            checks.push(cluster::registry(registry).await);
        }
        match self.kubeconfig() {
            None if self.pre => checks.push(Subject::Kubernetes.warning(
                "no kubeconfig, so only this machine was checked",
                "name the cluster's kubeconfig with --kubeconfig",
            )),
            file => checks.extend(cluster::checks(file.as_deref(), self.pre).await),
        }
        checks
    }

    /// Searches the same places as kubectl; returns `None` in a pod.
    fn kubeconfig(&self) -> Option<PathBuf> {
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let listed = std::env::split_paths(&listed).find(|path| !path.as_os_str().is_empty());
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        self.kubeconfig.clone().or(listed).or(usual.filter(|path| path.is_file()))
    }
}

fn report(checks: &[Check]) -> (String, Verdict) {
    let count = |outcome| checks.iter().filter(|check| check.outcome == outcome).count();
    let (failed, warnings) = (count(Outcome::Failed), count(Outcome::Warning));
    let mut text = String::new();
    for Check { subject, found, outcome, fix } in checks {
        let word = match outcome {
            Outcome::Passed => "ok",
            Outcome::Warning => "warning",
            Outcome::Failed => "FAILED",
        };
        text += &format!("{word:<8} {}: {found}\n", subject.title());
        if *outcome != Outcome::Passed {
            let anchor = subject.title().to_ascii_lowercase().replace(' ', "-");
            text += &format!("         Fix: {fix} (docs/doctor.md#{anchor})\n");
        }
    }
    text += &format!("{} checks: {failed} failed, {warnings} with a warning\n", checks.len());
    (text, if failed == 0 { Verdict::Healthy } else { Verdict::Failing })
}

/// Compares a version such as `v1.30.2+k3s1` or `6.1.0-18-amd64` with a minimum.
fn at_least(version: &str, major: u64, minor: u64) -> bool {
    let mut parts = version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse::<u64>().ok()).unwrap_or(0);
    (next(), next()) >= (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_section_of_the_page() {
        let page = include_str!("../../../../docs/doctor.md");
        for (subject, title) in Subject::ALL {
            assert_eq!(subject.title(), title);
            assert!(page.contains(&format!("\n## {title}\n")), "{title}");
        }
        assert_eq!(page.matches("\n## ").count(), Subject::ALL.len());
    }

    #[test]
    fn a_failed_check_shows_its_fix_and_decides() {
        let passed = Subject::Kernel.passed("6.1");
        let warning = Subject::NodeTuning.warning("absent", "install it");
        let (text, verdict) = report(&[passed, warning]);
        assert_eq!(verdict, Verdict::Healthy);
        assert_eq!(
            text,
            "ok       Kernel: 6.1\nwarning  Node tuning: absent\n         Fix: install it \
             (docs/doctor.md#node-tuning)\n2 checks: 0 failed, 1 with a warning\n"
        );
        let (text, verdict) =
            report(&[Subject::Cgroups.failed("version 1", "boot with version 2")]);
        assert_eq!((verdict, text.starts_with("FAILED   Cgroup v2: ")), (Verdict::Failing, true));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (version, holds) in [("v1.30.0", true), ("v1.9.9", false), ("v2.0", true), ("", false)]
        {
            assert_eq!(at_least(version, 1, 30), holds, "{version}");
        }
        assert!(at_least("4.18.0-553.el8_10.x86_64", 4, 18));
    }
}
