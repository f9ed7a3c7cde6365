//! Opens files below a folder, whatever their path or symlinks contain.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat};
use rustix::io::{Errno, Result};

/// A FIFO without a writer must not block, and a terminal must not become this process's
/// controlling terminal.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Maximum number of lookup attempts during concurrent renames (openat2(2), EAGAIN).
const ATTEMPTS: usize = 16;

/// The kernel's limit on symlinks (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Follows symlinks in the folder's own path.
pub(crate) fn folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, PLACE | OFlags::DIRECTORY, Mode::empty())?)
}

/// Opens a relative path for reading. Follows symlinks whose target stays below the folder, which
/// excludes absolute symlinks.
pub(crate) fn open(root: &OwnedFd, path: &str) -> Result<File> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match openat2(root, path, READ, Mode::empty(), beneath) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The kernel is older than 5.6, or a sandbox forbids the call. This result is not
            // remembered, because the call may be forbidden for a single file and the fallback is
            // equally safe.
            Err(Errno::NOSYS | Errno::PERM) => return walk(root.as_fd(), path).map(File::from),
            opened => return opened.map(File::from),
        }
    }
    Err(Errno::AGAIN)
}

/// Looks up one name at a time, as the kernel does. Each name is opened relative to the open folder
/// without following symlinks, so that a concurrent rename cannot lead out of the folder.
fn walk(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let mut folders = vec![openat(root, c".", PLACE | OFlags::DIRECTORY, Mode::empty())?];
    let mut names: VecDeque<Vec<u8>> = split(path.as_bytes()).collect();
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let Some(here) = folders.last() else { return Err(Errno::XDEV) };
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                folders.pop();
                continue;
            }
            _ => {}
        }
        let found = openat(here, name.as_slice(), PLACE | OFlags::NOFOLLOW, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                let target = readlinkat(&found, c"", Vec::new())?.into_bytes();
                if links > MAX_LINKS {
                    return Err(Errno::LOOP);
                }
                if target.starts_with(b"/") {
                    return Err(Errno::XDEV);
                }
                split(&target).rev().for_each(|name| names.push_front(name));
            }
            FileType::Directory => folders.push(found),
            _ if names.is_empty() => {
                return openat(here, name.as_slice(), READ | OFlags::NOFOLLOW, Mode::empty());
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    let Some(here) = folders.last() else { return Err(Errno::XDEV) };
    openat(here, c".", READ, Mode::empty())
}

fn split(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|&byte| byte == b'/').map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn both(root: &OwnedFd, path: &str) -> std::result::Result<u64, Errno> {
        let inode = |file: File| file.metadata().expect("metadata").ino();
        let walked = walk(root.as_fd(), path).map(|fd| inode(File::from(fd)));
        let opened = open(root, path).map(inode);
        assert_eq!(opened, walked, "{path}");
        opened
    }

    #[test]
    fn both_ways_find_the_same() {
        let outside = tempfile::tempdir().expect("a folder");
        let top = outside.path().join("root");
        fs::create_dir_all(top.join("a/b")).expect("folders");
        fs::write(outside.path().join("secret"), "s").expect("a file");
        fs::write(top.join("a/file"), "f").expect("a file");
        for (target, link) in [
            ("a/file", "inside"),
            ("../a/file", "a/back"),
            ("../secret", "out"),
            ("../../secret", "a/out"),
            ("/etc/passwd", "absolute"),
            ("../root/a/file", "around"),
            ("loop", "loop"),
            ("a", "folder"),
            ("b/../../a/./file", "a/winding"),
            ("none", "dangling"),
            ("/proc/self/root/etc/passwd", "magic"),
        ] {
            symlink(target, top.join(link)).expect("a link");
        }
        let root = folder(&top).expect("the root");
        let file = fs::metadata(top.join("a/file")).expect("metadata").ino();
        for path in ["a/file", "inside", "a/back", "folder/file", "folder/back", "a/winding"] {
            assert_eq!(both(&root, path), Ok(file), "{path}");
        }
        for path in ["out", "a/out", "absolute", "around", "magic", "..", "../secret", "a/../../x"]
        {
            assert_eq!(both(&root, path), Err(Errno::XDEV), "{path}");
        }
        assert_eq!(both(&root, "loop"), Err(Errno::LOOP));
        for path in ["none", "dangling", "none/x"] {
            assert_eq!(both(&root, path), Err(Errno::NOENT), "{path}");
        }
        assert_eq!(both(&root, "a/file/x"), Err(Errno::NOTDIR));
        assert!(both(&root, "a").is_ok());
        assert!(both(&root, ".").is_ok());
    }

    #[test]
    fn the_root_may_be_a_link_that_is_turned() {
        let place = tempfile::tempdir().expect("a folder");
        let link = place.path().join("current");
        for version in ["one", "two"] {
            fs::create_dir(place.path().join(version)).expect("a folder");
            fs::write(place.path().join(version).join("file"), version).expect("a file");
            let fresh = place.path().join("fresh");
            symlink(version, &fresh).expect("a link");
            fs::rename(&fresh, &link).expect("a rename");
            let file = open(&folder(&link).expect("the root"), "file").expect("the file");
            assert_eq!(io::read_to_string(file).expect("text"), version);
        }
    }
}
