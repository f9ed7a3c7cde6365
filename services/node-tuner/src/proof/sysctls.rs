//! Sysctls inside a pod's namespaces.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Reads sysctls in a process's namespaces; `None` for sysctls that do not exist.
///
/// `/proc/sys` shows the reader's namespaces, so a temporary thread enters the process's
/// namespaces. `process` is its directory in `/proc`.
pub(crate) fn read(process: &Path, names: &[&str]) -> Result<Vec<Option<String>>, String> {
    thread::scope(|scope| {
        let reader = scope.spawn(|| read_there(process, names));
        reader.join().unwrap_or_else(|_| Err("the reader ended early".to_owned()))
    })
}

fn read_there(process: &Path, names: &[&str]) -> Result<Vec<Option<String>>, String> {
    enter(&process.join("ns/net"), LinkNameSpaceType::Network)?;
    if names.iter().any(|name| !name.starts_with("net")) {
        enter(&process.join("ns/ipc"), LinkNameSpaceType::InterProcessCommunication)?;
    }
    Ok(names.iter().map(|name| fs::read_to_string(path(name)).ok()).collect())
}

fn enter(namespace: &Path, kind: LinkNameSpaceType) -> Result<(), String> {
    let entered = File::open(namespace).and_then(|file| {
        move_into_link_name_space(file.as_fd(), Some(kind)).map_err(io::Error::from)
    });
    entered.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "the pod's namespaces cannot be entered: only a privileged agent may (mode apply)"
                .to_owned()
        }
        _ => format!("{}: {error}", namespace.display()),
    })
}

/// Whichever of `.` and `/` comes first is the separator. The other character is part of a name,
/// such as the name of a VLAN device (sysctl(8)).
fn path(name: &str) -> PathBuf {
    let below: String = match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        Some(b'.') => name
            .chars()
            .map(|it| match it {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => name.to_owned(),
    };
    Path::new("/proc/sys").join(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_separator_decides() {
        for (name, file) in [
            ("net.core.somaxconn", "/proc/sys/net/core/somaxconn"),
            ("net/ipv4/conf/eth0.7/forwarding", "/proc/sys/net/ipv4/conf/eth0.7/forwarding"),
            ("net.ipv4.conf.eth0/7.forwarding", "/proc/sys/net/ipv4/conf/eth0.7/forwarding"),
        ] {
            assert_eq!(path(name), Path::new(file));
        }
    }
}
