//! Files below a root: a node's /proc and /sys, or a test tree like them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// The kernel's limit on symlinks (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Paths start with `/` and are below the root.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Tree { root: root.canonicalize().unwrap_or_else(|_| root.to_owned()) }
    }

    /// The real path. Symlinks in a test tree must not lead out of it, because that would change
    /// this machine.
    fn place(&self, path: &str) -> io::Result<PathBuf> {
        if self.root == Path::new("/") {
            // This link is not resolved, because /proc/1/root is a different root, regardless of
            // the link's target.
            return Ok(PathBuf::from(path));
        }
        let place = self.root.join(path.trim_start_matches('/')).canonicalize()?;
        if place.starts_with(&self.root) {
            return Ok(place);
        }
        let words = format!("{path} leads out of {}", self.root.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
    }

    pub(crate) fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.place(path)?)
    }

    pub(crate) fn text(&self, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read(path)?).trim().to_owned())
    }

    /// Writes as the kernel requires: opens the existing file, truncates it and writes once.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        self.hold(path, content).map(drop)
    }

    /// Returns the open file, because some settings last only while it is open.
    pub(crate) fn hold(&self, path: &str, content: &[u8]) -> io::Result<fs::File> {
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.place(path)?)?;
        // A second write to such a file would set the value again.
        match file.write(content)? {
            written if written == content.len() => Ok(file),
            _ => Err(io::Error::new(io::ErrorKind::WriteZero, "only a part was taken")),
        }
    }

    /// Replaces a file on disk durably, with its mode and owner. After a crash, the file has either
    /// the old or the new content (rename(2)).
    pub(crate) fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let place = followed(self.place(path)?)?;
        let before = fs::metadata(&place)?;
        let unfinished = unfinished(&place);
        remove_if_there(&unfinished)?;
        let written = write_as(&before, &unfinished, content);
        if let Err(error) = written.and_then(|()| fs::rename(&unfinished, &place)) {
            // The first error is the one to report.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        fs::File::open(place.parent().unwrap_or(Path::new("/")))?.sync_all()
    }

    /// Removes the temporary file of a `replace` that was killed.
    pub(crate) fn remove_unfinished(&self, path: &str) -> io::Result<()> {
        remove_if_there(&unfinished(&followed(self.place(path)?)?))
    }

    /// Names in a directory in natural order: `rx-2` before `rx-10`.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.place(path)?)?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>()?;
        names.sort_by_cached_key(|name| natural(name));
        Ok(names)
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.place(path).is_ok_and(|place| place.exists())
    }

    /// Whether the owner may write the file; true if unknown.
    pub(crate) fn writable(&self, path: &str) -> bool {
        let metadata = self.place(path).and_then(fs::metadata);
        metadata.map_or(true, |it| it.permissions().mode() & 0o200 != 0)
    }

    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let place = self.place(path).ok()?.canonicalize().ok()?;
        Some(place.file_name()?.to_string_lossy().into_owned())
    }
}

/// Follows a symlink, which a rename would replace. The path is not canonicalized, because of
/// /proc/1/root; only the last component matters.
fn followed(mut place: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..MAX_LINKS {
        match fs::read_link(&place) {
            Ok(target) => place = place.parent().unwrap_or(Path::new("/")).join(target),
            // Not a symlink (readlink(2)).
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(place),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}

/// The temporary path, in the same folder because a rename cannot cross file systems.
fn unfinished(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.node-tuner"))
}

/// Writes a new file to disk, with the mode and owner of another file.
fn write_as(other: &fs::Metadata, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (other.uid(), other.gid()) {
        fchown(&file, Some(other.uid()), Some(other.gid()))?;
    }
    // The mode is set after the owner, because changing the owner clears some mode bits (chown(2)).
    file.set_permissions(other.permissions())?;
    file.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Splits a name into the part before its last number, and that number.
fn natural(name: &str) -> (String, u64) {
    let stem = name.trim_end_matches(|it: char| it.is_ascii_digit());
    (stem.to_owned(), name[stem.len()..].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_cut_off_and_written_but_never_made() {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("a"), "12345\n").expect("file");
        let tree = Tree::new(folder.path());
        tree.write("/a", b"6\n").expect("written");
        assert_eq!(tree.text("/a").expect("read"), "6");
        let error = tree.write("/b", b"1").expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_its_links() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("a");
        fs::write(&file, "12345\n").expect("file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("mode");
        std::os::unix::fs::symlink("a", folder.path().join("link")).expect("link");
        // A `replace` that was killed may have left this file behind.
        fs::write(folder.path().join(".a.node-tuner"), "half").expect("file");
        let before = fs::metadata(&file).expect("there").ino();
        let tree = Tree::new(folder.path());
        tree.replace("/link", b"6\n").expect("replaced");
        let after = fs::metadata(&file).expect("there");
        assert_eq!(fs::read(&file).expect("read"), b"6\n");
        assert_eq!(after.permissions().mode() & 0o7777, 0o640);
        assert_ne!(after.ino(), before);
        assert!(fs::symlink_metadata(folder.path().join("link")).expect("there").is_symlink());
        assert_eq!(tree.list("/").expect("listed"), ["a", "link"]);
        let error = tree.replace("/b", b"1").expect_err("there is none");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn links_do_not_lead_out_of_a_disposable_tree() {
        let folder = tempfile::tempdir().expect("folder");
        std::os::unix::fs::symlink("/proc/sys", folder.path().join("sys")).expect("link");
        let tree = Tree::new(folder.path());
        let error = tree.read("/sys/fs/file-max").expect_err("outside");
        assert!(error.to_string().contains("leads out of"), "{error}");
        assert!(tree.write("/../../../etc/hostname", b"x").is_err());
    }

    #[test]
    fn names_are_in_the_order_of_people() {
        let folder = tempfile::tempdir().expect("folder");
        for name in ["rx-10", "rx-2", "tx-0"] {
            fs::write(folder.path().join(name), "").expect("file");
        }
        let names = Tree::new(folder.path()).list("/").expect("listed");
        assert_eq!(names, ["rx-2", "rx-10", "tx-0"]);
    }
}
