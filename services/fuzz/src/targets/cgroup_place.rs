//! The directories of a controller, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
//!
//! Each directory is the parent of the previous one, up to the mount point. A mount point with any
//! character round-trips through the kernel's escapes.
//!
//! The input is the first file, a line `---`, then the second.

use std::path::{Component, Path};

use corelane::fuzzing::directories;

pub(super) fn run(text: &str) {
    let (members, mountinfo) = text.split_once("\n---\n").unwrap_or((text, ""));
    for controller in ["cpu", "cpuset"] {
        let Some(found) = directories(members, mountinfo, controller) else { continue };
        let point = found.last().expect("the mount point itself");
        for pair in found.windows(2) {
            assert_eq!(pair[0].parent(), Some(pair[1].as_path()), "{found:?}");
        }
        let below = found[0].strip_prefix(point).expect("it is below the mount point");
        assert!(below.components().all(|part| matches!(part, Component::Normal(_))), "{found:?}");
    }
    if !text.contains('\0') {
        comes_back(&format!("/{text}"));
    }
}

/// The kernel escapes these four (show_mountinfo in fs/proc_namespace.c).
fn comes_back(point: &str) {
    let escape = |c: char| match c {
        ' ' => "\\040".to_owned(),
        '\t' => "\\011".to_owned(),
        '\n' => "\\012".to_owned(),
        '\\' => "\\134".to_owned(),
        other => other.to_string(),
    };
    let escaped: String = point.chars().map(escape).collect();
    let mountinfo = format!("30 20 0:26 / {escaped} rw - cgroup2 cgroup2 rw\n");
    let found = directories("0::/\n", &mountinfo, "cpu").expect("a place");
    assert_eq!(found, [Path::new(point)]);
}
