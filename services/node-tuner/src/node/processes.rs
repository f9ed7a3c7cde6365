//! Processes of the node, from /proc.

use crate::tree::Tree;

/// A running process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    folder: String,
}

/// Processes with this name.
pub(crate) fn named(tree: &Tree, name: &str) -> Vec<Process> {
    let folders = tree.list("/proc").unwrap_or_default().into_iter();
    let numbered = folders.filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    let is = |folder: &String| tree.text(&format!("{folder}/comm")).is_ok_and(|it| it == name);
    numbered.map(|it| format!("/proc/{it}")).filter(is).map(|folder| Process { folder }).collect()
}

impl Process {
    /// An environment variable of the process. The outer `None` means that it cannot be read.
    pub(crate) fn variable(&self, tree: &Tree, name: &str) -> Option<Option<String>> {
        let all = tree.read(&format!("{}/environ", self.folder)).ok()?;
        let all = String::from_utf8_lossy(&all).into_owned();
        let mut pairs = all.split('\0').filter_map(|it| it.split_once('='));
        Some(pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned()))
    }
}

/// The hard limit of open files of a process; `None` if there is no such line.
pub(crate) fn limit(tree: &Tree, process: &Process) -> Option<u64> {
    let text = tree.text(&format!("{}/limits", process.folder)).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
