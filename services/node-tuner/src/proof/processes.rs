//! Processes and their threads, from `/proc`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cpus::Cpus;

#[derive(Clone, Debug)]
pub(crate) struct Processes(PathBuf);

impl Processes {
    pub(crate) fn new(root: &Path) -> Self {
        Processes(root.join("proc"))
    }

    pub(crate) fn folder(&self, pid: u32) -> PathBuf {
        self.0.join(pid.to_string())
    }

    /// Union of the allowed CPUs of all threads. Ignores exited processes.
    pub(crate) fn cpus(&self, pids: &[u32]) -> Result<Cpus, String> {
        let mut cpus = Cpus::default();
        for &pid in pids {
            let tasks = self.folder(pid).join("task");
            let failed = |error| format!("{}: {error}", tasks.display());
            let Some(entries) = present(fs::read_dir(&tasks)).map_err(failed)? else { continue };
            for entry in entries.flatten() {
                let status = present(fs::read_to_string(entry.path().join("status")));
                if let Some(status) = status.map_err(failed)? {
                    cpus.add(&allowed(&status).ok_or("a thread's status names no CPUs")?);
                }
            }
        }
        Ok(cpus)
    }

    /// Lowest soft limit on open files of these processes; `None` if all processes have ended.
    pub(crate) fn open_files(&self, pids: &[u32]) -> Result<Option<u64>, String> {
        let mut lowest = None;
        for &pid in pids {
            let file = self.folder(pid).join("limits");
            let failed = |error| format!("{}: {error}", file.display());
            let Some(text) = present(fs::read_to_string(&file)).map_err(failed)? else { continue };
            let limit = soft_limit(&text).ok_or_else(|| format!("{}: no limit", file.display()))?;
            lowest = Some(lowest.map_or(limit, |it: u64| it.min(limit)));
        }
        Ok(lowest)
    }

    pub(crate) fn name(&self, pid: u32) -> String {
        let name = fs::read_to_string(self.folder(pid).join("comm")).unwrap_or_default();
        name.trim().to_owned()
    }
}

/// `None` if the process exited, possibly between open and read (3 is ESRCH).
fn present<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(3) => Ok(None),
        Err(error) => Err(error),
    }
}

fn allowed(status: &str) -> Option<Cpus> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Cpus::from_list(list)
}

fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
