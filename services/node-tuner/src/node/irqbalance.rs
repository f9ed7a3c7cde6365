//! State of irqbalance: whether it is running, and its file of excluded CPUs.

use std::io;

use super::{Process, named};
use crate::cpus::Cpus;
use crate::tree::Tree;

/// Debian's and Red Hat's paths, below the root of process 1. In a container, this is the host's
/// root.
pub(crate) const FILES: [&str; 4] = [
    "/proc/1/root/etc/default/irqbalance",
    "/proc/1/root/etc/sysconfig/irqbalance",
    "/etc/default/irqbalance",
    "/etc/sysconfig/irqbalance",
];
const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
const MASK: &str = "IRQBALANCE_BANNED_CPUS";

#[derive(Debug)]
pub(crate) struct Irqbalance {
    pub(crate) runs: bool,
    pub(crate) file: Option<&'static str>,
    /// Whether there may be a file that this program cannot read.
    pub(crate) hidden: bool,
    /// CPUs excluded by the running program; `None` if unreadable.
    pub(crate) bans: Option<Cpus>,
}

impl Irqbalance {
    pub(super) fn look(tree: &Tree) -> Irqbalance {
        let running = named(tree, "irqbalance");
        let read = |path: &str| tree.read(path).map_err(|error| error.kind());
        Irqbalance {
            file: FILES.into_iter().find(|path| read(path).is_ok()),
            hidden: FILES.iter().any(|path| read(path) == Err(io::ErrorKind::PermissionDenied)),
            bans: running.first().and_then(|process| in_environment(tree, process)),
            runs: !running.is_empty(),
        }
    }
}

fn in_environment(tree: &Tree, process: &Process) -> Option<Cpus> {
    let list = process.variable(tree, LIST)?.and_then(|text| Cpus::from_list(&text));
    let mask = process.variable(tree, MASK)?.and_then(|text| Cpus::from_mask(&text));
    Some(list.or(mask).unwrap_or_default())
}

/// The CPUs that a file bans. The last line applies, and a list takes precedence over a mask.
pub(crate) fn banned(text: &str) -> Cpus {
    let value = |name: &str| lines(text).filter(|it| it.name == name && !it.comment).last();
    let list = value(LIST).and_then(|it| Cpus::from_list(it.value));
    let mask = || value(MASK).and_then(|it| Cpus::from_mask(it.value));
    list.filter(|it| !it.is_empty()).or_else(mask).unwrap_or_default()
}

/// Bans these CPUs in the file and leaves other lines unchanged. The new line replaces the last
/// line with its variable, even if that line is commented out. irqbalance before 1.8 supports only
/// the mask.
pub(crate) fn with_banned(text: &str, cpus: &Cpus) -> String {
    let named = |name: &str| lines(text).filter(|it| it.name == name).last();
    let place = named(LIST).or_else(|| named(MASK));
    let line = match &place {
        Some(place) if place.name == MASK => format!("{MASK}={}", cpus.mask().replace(',', "")),
        _ => format!("{LIST}={}", cpus.list()),
    };
    match place {
        Some(place) => format!("{}{line}{}", &text[..place.start], &text[place.end..]),
        None if text.is_empty() || text.ends_with('\n') => format!("{text}{line}\n"),
        None => format!("{text}\n{line}\n"),
    }
}

/// Returns the original file, but keeps later changes to other lines.
pub(crate) fn undone(original: &str, written: &str, now: &str) -> String {
    if now == written {
        return original.to_owned();
    }
    let ours: Vec<&str> =
        written.lines().filter(|it| !original.lines().any(|o| o == *it)).collect();
    let theirs: Vec<&str> =
        original.lines().filter(|it| !written.lines().any(|w| w == *it)).collect();
    let mut text = String::new();
    for line in now.split_inclusive('\n') {
        match ours.contains(&line.trim_end_matches('\n')) {
            false => text += line,
            true => theirs.iter().for_each(|it| text += &format!("{it}\n")),
        }
    }
    text
}

/// Whether two texts differ only in the banned-CPU lines, and the first text sets these lines to a
/// list or mask. A shell also reads the file (Debian's init script), so nothing else may be
/// restored.
pub(crate) fn differ_only_in_bans(original: &str, written: &str) -> bool {
    let plain = |it: char| it.is_ascii_hexdigit() || "x,- ".contains(it);
    lines(original).filter(|it| !it.comment).all(|it| it.value.chars().all(plain))
        && without_bans(original) == without_bans(written)
}

fn without_bans(text: &str) -> Vec<&str> {
    text.lines().filter(|line| lines(line).next().is_none()).collect()
}

/// A line that sets a variable, possibly in a comment.
struct Line<'a> {
    name: &'a str,
    value: &'a str,
    comment: bool,
    start: usize,
    end: usize,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |whole| {
        let from = start;
        start += whole.len();
        let line = whole.trim_end_matches('\n');
        let bare = line.trim_start_matches(['#', ' ']);
        let (name, value) = bare.split_once('=')?;
        Some(Line {
            name: [LIST, MASK].into_iter().find(|it| *it == name.trim())?,
            value: value.trim().trim_matches('"'),
            comment: line.trim_start().starts_with('#'),
            start: from,
            end: from + line.len(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(list: &str) -> Cpus {
        Cpus::from_list(list).expect("a list")
    }

    #[test]
    fn one_line_is_changed_and_the_rest_kept() {
        for (before, after) in [
            ("", "IRQBALANCE_BANNED_CPULIST=2-3\n"),
            ("A=1", "A=1\nIRQBALANCE_BANNED_CPULIST=2-3\n"),
            ("A=1\n#IRQBALANCE_BANNED_CPUS=\nB=2\n", "A=1\nIRQBALANCE_BANNED_CPUS=c\nB=2\n"),
            (
                "# IRQBALANCE_BANNED_CPULIST\n#IRQBALANCE_BANNED_CPULIST=\n# end",
                "# IRQBALANCE_BANNED_CPULIST\nIRQBALANCE_BANNED_CPULIST=2-3\n# end",
            ),
            ("IRQBALANCE_BANNED_CPULIST=\"7\"", "IRQBALANCE_BANNED_CPULIST=2-3"),
        ] {
            assert_eq!(with_banned(before, &cpus("2-3")), after);
            assert_eq!(banned(after), cpus("2-3"));
            assert_eq!(undone(before, after, after), before);
        }
    }

    #[test]
    fn what_others_changed_meanwhile_stays() {
        let before = "A=1\n#IRQBALANCE_BANNED_CPULIST=\n";
        let written = with_banned(before, &cpus("2-3"));
        let now = written.replace("A=1", "A=2") + "B=1\n";
        assert_eq!(undone(before, &written, &now), "A=2\n#IRQBALANCE_BANNED_CPULIST=\nB=1\n");
    }

    #[test]
    fn only_the_banned_cpus_differ() {
        let before = "A=1\n#IRQBALANCE_BANNED_CPUS=\nIRQBALANCE_BANNED_CPULIST=\"0-1,4\"\n# end";
        let written = with_banned(before, &cpus("2-3"));
        assert!(differ_only_in_bans(before, &written));
        for other in [
            before.replace("A=1", "A=2"),
            before.replace("0-1,4", "$(reboot)"),
            before.replace("0-1,4", "0; reboot"),
            format!("{before}\nB=1"),
            String::new(),
        ] {
            assert!(!differ_only_in_bans(&other, &written), "{other}");
        }
    }

    #[test]
    fn a_comment_bans_nothing() {
        assert!(banned("#IRQBALANCE_BANNED_CPULIST=1\n").is_empty());
        assert_eq!(banned("IRQBALANCE_BANNED_CPUS=00000000,0000000c\n"), cpus("2-3"));
    }
}
