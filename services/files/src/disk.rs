//! Looks up files on disk, on blocking threads.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use crate::beneath;
use crate::encoding::Coding;
use crate::resource::{Content, OpenFile, Representation, Resource};
use crate::rules::Rules;
use crate::stamp::{Known, Stamp, Stamps};

/// Maximum number of read attempts for a file that changes while it is read.
const ATTEMPTS: usize = 3;

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) root: PathBuf,
    /// Maximum size of a file that is read into memory.
    pub(crate) small: u64,
    pub(crate) rules: Rules,
}

#[derive(Debug)]
pub(crate) enum Finding {
    Same,
    File(Box<Resource>),
    Folder,
    Nothing,
}

/// An open file and its state when it was opened.
struct Opened {
    file: File,
    stamp: Stamp,
}

enum Kind {
    File(Opened),
    Folder,
    Nothing,
}

impl Disk {
    /// An empty path or a trailing slash looks up the folder's index.
    pub(crate) fn find(&self, path: &str, known: Option<&Known>) -> io::Result<Finding> {
        let begun = SystemTime::now();
        let root = beneath::folder(&self.root)?;
        let of_folder = path.is_empty() || path.ends_with('/');
        let path = format!("{path}{}", if of_folder { "index.html" } else { "" });
        let own = match open(&root, &path)? {
            Kind::File(opened) => opened,
            Kind::Folder if of_folder => return Ok(Finding::Nothing),
            Kind::Folder => return Ok(Finding::Folder),
            Kind::Nothing => return Ok(Finding::Nothing),
        };
        let [br, zst, gz] = Coding::ALL.map(|coding| copy(&root, &path, coding, &own.stamp));
        let copies = [br?, zst?, gz?];
        let mut stamps = Stamps {
            own: own.stamp,
            copies: copies.each_ref().map(|copy| copy.as_ref().map(|copy| copy.stamp)),
        };
        if known.is_some_and(|known| known.is_current(&stamps)) {
            return Ok(Finding::Same);
        }
        let small = stamps.all().all(|stamp| stamp.size() <= self.small);
        let identity = self.represent(&path, None, own, small)?;
        stamps.own = identity.stamp;
        let mut encoded = Vec::new();
        for (index, (coding, copy)) in Coding::ALL.into_iter().zip(copies).enumerate() {
            if let Some(copy) = copy {
                let copy = self.represent(&path, Some(coding), copy, small)?;
                stamps.copies[index] = Some(copy.stamp);
                encoded.push(copy);
            }
        }
        let known = Known::new(stamps, begun);
        Ok(Finding::File(Box::new(Resource::new(identity, encoded, known))))
    }

    fn represent(
        &self,
        path: &str,
        coding: Option<Coding>,
        mut opened: Opened,
        small: bool,
    ) -> io::Result<Representation> {
        let read = if small { read(&mut opened, self.small)? } else { None };
        let Opened { file, stamp } = opened;
        let content = match read {
            Some(bytes) => Content::Memory(bytes),
            None => Content::Disk(Arc::new(OpenFile { file, stamp })),
        };
        Ok(Representation::new(path, coding, content, stamp, self.rules.of(path)))
    }
}

fn open(root: &OwnedFd, path: &str) -> io::Result<Kind> {
    let file = match beneath::open(root, path) {
        Ok(file) => file,
        Err(error) if is_nothing(error) => return Ok(Kind::Nothing),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    Ok(match metadata.file_type() {
        kind if kind.is_file() => Kind::File(Opened { file, stamp: Stamp::of(&metadata) }),
        kind if kind.is_dir() => Kind::Folder,
        _ => Kind::Nothing,
    })
}

/// Whether an error means that the file does not exist for clients, which includes paths that leave
/// the root and unreadable files. All other errors are server errors.
fn is_nothing(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NAMETOOLONG
            | Errno::ACCESS
            | Errno::PERM
            | Errno::NXIO
            | Errno::INVAL
    )
}

/// Opens a file's encoded copy. The copy is stale if it is older than the file.
fn copy(
    root: &OwnedFd,
    path: &str,
    coding: Coding,
    original: &Stamp,
) -> io::Result<Option<Opened>> {
    Ok(match open(root, &format!("{path}{}", coding.suffix()))? {
        Kind::File(copy) if copy.stamp.modified() >= original.modified() => Some(copy),
        _ => None,
    })
}

/// Reads a consistent version of an entire file. Fails if the file has grown beyond `most` bytes.
fn read(opened: &mut Opened, most: u64) -> io::Result<Option<Bytes>> {
    let Opened { file, stamp } = opened;
    for _ in 0..ATTEMPTS {
        if stamp.size() > most {
            return Ok(None);
        }
        // Leaves room for one more byte, so that reading ends without growing the buffer.
        let mut bytes = Vec::with_capacity(stamp.size() as usize + 1);
        io::Seek::rewind(file)?;
        Read::by_ref(file).take(stamp.size() + 1).read_to_end(&mut bytes)?;
        let after = Stamp::of(&file.metadata()?);
        if after == *stamp && bytes.len() as u64 == stamp.size() {
            return Ok(Some(Bytes::from(bytes)));
        }
        *stamp = after;
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the file changes while it is read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_while_it_is_read_is_not_read_into_memory() {
        let file = tempfile::tempfile().expect("a file");
        let stamp = Stamp::of(&file.metadata().expect("its state"));
        file.set_len(1 << 40).expect("a sparse file");
        let mut opened = Opened { file, stamp };
        assert_eq!(read(&mut opened, 1 << 16).expect("no error"), None);
        assert_eq!(opened.stamp.size(), 1 << 40);
    }
}
