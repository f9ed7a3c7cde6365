//! Reads the memory limit of the server's cgroup.

use std::path::{Path, PathBuf};

use super::view::Files;

/// From here on there is no limit: cgroup v1 shows the largest multiple of a page.
const NO_LIMIT: u64 = 1 << 62;

/// The smallest limit of this process's cgroup and its visible ancestors, in bytes; `None` without
/// one.
pub(crate) fn memory_limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<u64> {
    let files = Files { root };
    let location = files.cgroups().locate("memory")?;
    let name = if location.v1 { "memory.limit_in_bytes" } else { "memory.max" };
    let limit = |at: &PathBuf| files.text(at.join(name))?.trim().parse::<u64>().ok();
    location.directories.iter().filter_map(limit).filter(|&bytes| bytes < NO_LIMIT).min()
}

#[cfg(test)]
mod tests {
    use super::super::tree::Tree;
    use super::*;

    fn v2(name: &str, own: &str, pod: &str) -> Option<u64> {
        let mounted = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let tree = Tree::new(
            name,
            &[
                ("proc/self/cgroup", "0::/pod/a\n"),
                ("proc/self/mountinfo", mounted),
                ("sys/fs/cgroup/pod/a/memory.max", own),
                ("sys/fs/cgroup/pod/memory.max", pod),
            ],
        );
        limit_below(tree.root())
    }

    #[test]
    fn v2_smallest_of_the_hierarchy() {
        assert_eq!(v2("memory-own", "1048576\n", "max\n"), Some(1_048_576));
        assert_eq!(v2("memory-pod", "max\n", "4096\n"), Some(4096));
        assert_eq!(v2("memory-none", "max\n", "max\n"), None);
    }

    #[test]
    fn v1_without_a_limit() {
        let mounted = "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let tree = Tree::new(
            "memory-v1",
            &[
                ("proc/self/cgroup", "4:memory:/a\n"),
                ("proc/self/mountinfo", mounted),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ],
        );
        assert_eq!(limit_below(tree.root()), None);
    }
}
