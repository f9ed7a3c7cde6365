//! Detects changes to files.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use crate::encoding::Coding;

/// A file that changed this recently may change again within the same tick of the file system's
/// clock. The second change would not alter the file's times, so its content is checked again soon.
/// The coarsest tick in use is two seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// Shows whether a file is unchanged. Renaming another file over a file changes the inode, and any
/// change to the content or times updates the change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the content is the same as in `before`. New links and permissions change the stamp
    /// but not the content.
    pub(crate) fn has_content_of(&self, before: &Stamp) -> bool {
        (self.size, self.modified) == (before.size, before.modified)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Time at which the content changed, in seconds and nanoseconds since 1970.
    pub(crate) fn modified(&self) -> (i64, i64) {
        self.modified
    }

    fn settled(&self, now: SystemTime) -> bool {
        let seconds = u64::try_from(self.changed.0).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds + 1);
        now.duration_since(changed).is_ok_and(|age| age >= SETTLED)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    pub(crate) own: Stamp,
    pub(crate) copies: [Option<Stamp>; Coding::ALL.len()],
}

impl Stamps {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Stamp> {
        std::iter::once(&self.own).chain(self.copies.iter().flatten())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    stamps: Stamps,
    settled: bool,
}

impl Known {
    /// `stamps` were taken after `begun`.
    pub(crate) fn new(stamps: Stamps, begun: SystemTime) -> Self {
        let settled = stamps.all().all(|stamp| stamp.settled(begun));
        Known { stamps, settled }
    }

    pub(crate) fn is_current(&self, stamps: &Stamps) -> bool {
        self.settled && self.stamps == *stamps
    }
}
