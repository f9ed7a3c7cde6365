//! The journal of original values, saved durably before any change.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    version: u32,
    pub(super) boot: String,
    pub(super) profile: String,
    pub(super) settings: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) target: String,
    pub(super) path: String,
    pub(super) original: Content,
    pub(super) written: Content,
    /// Content that is being written. It is recorded before the write, so that the change can be
    /// attributed to this program even if the program is killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<Content>,
    pub(super) lasting: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) refused: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes)
            .map_or_else(|it| Content::Bytes { bytes: it.into_bytes() }, Content::Text)
    }
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes { bytes } => bytes,
        }
    }
}

impl Entry {
    pub(super) fn will_be(&mut self, desired: &[u8]) {
        self.pending = (self.written.bytes() != desired).then(|| desired.to_vec().into());
    }

    pub(super) fn was_written(&mut self, desired: &[u8]) {
        self.written = desired.to_vec().into();
        self.pending = None;
    }

    /// Decides whether an interrupted pass had written the value.
    pub(super) fn settle(&mut self, arrived: impl FnOnce(&[u8]) -> bool) {
        if let Some(pending) = self.pending.take().filter(|it| arrived(it.bytes())) {
            self.written = pending;
        }
    }
}

impl Journal {
    pub(super) fn new(boot: &str) -> Self {
        Journal { version: VERSION, boot: boot.to_owned(), ..Journal::default() }
    }

    pub(super) fn entry(&self, name: &str, path: &str) -> Option<&Entry> {
        self.settings.iter().find(|it| it.name == name && it.path == path)
    }

    pub(super) fn entry_mut(&mut self, name: &str, path: &str) -> Option<&mut Entry> {
        self.settings.iter_mut().find(|it| it.name == name && it.path == path)
    }

    fn since(mut self, boot: &str) -> Self {
        if !boot.is_empty() && self.boot != boot {
            self.settings.retain(|it| it.lasting);
            self.boot = boot.to_owned();
        }
        self
    }
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    folder: PathBuf,
}

/// Excludes other writers while it exists.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock ends when the file is closed")] File);

impl Store {
    pub(super) fn new(folder: &Path) -> Self {
        Store { folder: folder.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("journal.json")
    }

    fn unfinished(&self) -> PathBuf {
        self.folder.join("journal.json.new")
    }

    pub(super) fn has_folder(&self) -> bool {
        self.folder.is_dir()
    }

    /// Takes the lock without waiting, because its owner is changing the same settings.
    pub(super) fn lock(&self) -> io::Result<Lock> {
        self.make_folder().map_err(|error| named(&self.folder, &error))?;
        let path = self.folder.join("lock");
        let opened =
            OpenOptions::new().create(true).write(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|error| named(&path, &error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let words = format!("another node-tuner has the lock {}", path.display());
                Err(io::Error::new(io::ErrorKind::WouldBlock, words))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn make_folder(&self) -> io::Result<()> {
        let is_new = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let new: Vec<&Path> = self.folder.ancestors().take_while(is_new).collect();
        fs::create_dir_all(&self.folder)?;
        for folder in new {
            // Makes the folder readable for an unprivileged audit, regardless of the umask.
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            let above = folder.parent().filter(|it| !it.as_os_str().is_empty());
            sync(above.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    /// Reads the current journal. Returns an error if the journal is invalid.
    pub(super) fn read(&self, boot: &str) -> io::Result<Option<Journal>> {
        let text = match fs::read(self.file()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|error| self.unreadable(&error.to_string()))?,
        };
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let version: Version =
            serde_json::from_slice(&text).map_err(|error| self.unreadable(&error.to_string()))?;
        if version.version != VERSION {
            return Err(self.unreadable(&format!(
                "version {}, but this program knows only {VERSION}: use the one that wrote it",
                version.version
            )));
        }
        let journal: Journal =
            serde_json::from_slice(&text).map_err(|error| self.unreadable(&error.to_string()))?;
        Ok(Some(journal.since(boot)))
    }

    fn unreadable(&self, why: &str) -> io::Error {
        let words = format!(
            "the journal {} cannot be read, so nothing is changed: {why}",
            self.file().display()
        );
        io::Error::new(io::ErrorKind::InvalidData, words)
    }

    /// Writes the journal durably, so that it survives a power failure.
    pub(super) fn write(&self, journal: &Journal) -> io::Result<()> {
        self.replace(journal).map_err(|error| named(&self.file(), &error))
    }

    fn replace(&self, journal: &Journal) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(journal)?;
        text.push(b'\n');
        let mut file = File::create(self.unfinished())?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(self.unfinished(), self.file())?;
        sync(&self.folder)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        for path in [self.unfinished(), self.file()] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        sync(&self.folder)
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, original: Vec<u8>, lasting: bool) -> Entry {
        Entry {
            name: name.to_owned(),
            target: String::new(),
            path: format!("/{name}"),
            original: original.into(),
            written: b"1\n".to_vec().into(),
            pending: None,
            lasting,
            refused: false,
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("folder");
        let store = Store::new(&folder.path().join("a/b"));
        (folder, store)
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        let (_folder, store) = store();
        let _lock = store.lock().expect("the only one");
        assert_eq!(store.read("one").expect("none"), None);
        let mut journal = Journal::new("one");
        journal.settings = vec![
            entry("text", b"always [madvise] never\n".to_vec(), false),
            entry("bytes", 2_000_000_000i32.to_le_bytes().to_vec(), false),
        ];
        store.write(&journal).expect("written");
        assert_eq!(store.read("one").expect("read"), Some(journal));
        store.remove().expect("removed");
        store.remove().expect("nothing to remove");
        assert_eq!(store.read("one").expect("none"), None);
    }

    #[test]
    fn what_was_being_written_is_ours_if_it_arrived() {
        let mut it = entry("a", vec![], false);
        it.will_be(b"1\n");
        assert_eq!(it.pending, None, "the same value");
        it.will_be(b"2\n");
        it.settle(|bytes| bytes == b"3\n");
        assert_eq!((it.written.bytes(), &it.pending), (&b"1\n"[..], &None));
        it.will_be(b"2\n");
        it.settle(|bytes| bytes == b"2\n");
        assert_eq!((it.written.bytes(), &it.pending), (&b"2\n"[..], &None));
    }

    #[test]
    fn a_start_of_the_machine_drops_what_does_not_last() {
        let (_folder, store) = store();
        let _lock = store.lock().expect("the only one");
        let mut journal = Journal::new("one");
        journal.settings = vec![entry("a", vec![], false), entry("b", vec![], true)];
        store.write(&journal).expect("written");
        let later = store.read("two").expect("read").expect("there");
        assert_eq!((later.boot.as_str(), later.settings.len()), ("two", 1));
        assert!(later.entry("b", "/b").is_some());
        assert_eq!(
            store.read("").expect("read"),
            Some(journal),
            "a boot that is not known is none"
        );
    }

    #[test]
    fn what_cannot_be_understood_is_an_error() {
        let (_folder, store) = store();
        let _lock = store.lock().expect("the only one");
        for text in ["", "{", "[]", r#"{"version":1}"#, r#"{"version":2,"settings":[]}"#] {
            fs::write(store.file(), text).expect("written");
            let error = store.read("one").expect_err(text).to_string();
            assert!(error.contains("so nothing is changed"), "{error}");
        }
    }

    #[test]
    fn one_writer_at_a_time() {
        let (_folder, store) = store();
        let lock = store.lock().expect("the first");
        assert_eq!(store.lock().expect_err("a second").kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        store.lock().expect("after the first");
    }
}
