//! A lane's cache of small files.

use std::rc::Rc;

use lru::LruCache;
use nix::time::{ClockId, clock_gettime};

use crate::resource::Resource;

/// Milliseconds on a coarse monotonic clock, which is very cheap to read (clock_gettime(2),
/// CLOCK_MONOTONIC_COARSE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    pub(crate) fn now() -> Moment {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE);
        // Fails only if the kernel lacks the clock (clock_gettime(2)).
        Moment(now.map_or(0, |now| now.tv_sec() as u64 * 1000 + now.tv_nsec() as u64 / 1_000_000))
    }

    pub(crate) fn millis_since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    #[cfg(test)]
    pub(crate) fn millis_before(self, millis: u64) -> Moment {
        Moment(self.0 - millis)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) resource: Rc<Resource>,
    /// Time at which the cached file was last known to match the file on disk.
    pub(crate) seen: Moment,
    cost: u64,
}

/// Files by path, with least-recently-used eviction. Paths without a file are never cached, because
/// their number is unlimited.
#[derive(Debug)]
pub(crate) struct Cache {
    files: LruCache<Box<str>, Kept>,
    /// Limit and current number of cached bytes.
    room: u64,
    used: u64,
}

impl Cache {
    pub(crate) fn new(room: u64) -> Cache {
        Cache { files: LruCache::unbounded(), room, used: 0 }
    }

    pub(crate) fn get(&mut self, path: &str) -> Option<&Kept> {
        self.files.get(path)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns a file without marking it as used.
    pub(crate) fn peek(&self, path: &str) -> Option<&Kept> {
        self.files.peek(path)
    }

    pub(crate) fn confirm(&mut self, path: &str, seen: Moment) {
        if let Some(kept) = self.files.peek_mut(path) {
            kept.seen = seen;
        }
    }

    /// Caches a file if it is small enough, replacing its previous version.
    pub(crate) fn keep(&mut self, path: &str, resource: &Rc<Resource>, seen: Moment) {
        self.forget(path);
        let Some(cost) = resource.cost.map(|cost| cost + path.len() as u64) else { return };
        if cost > self.room {
            return;
        }
        while self.used + cost > self.room
            && let Some((_, least)) = self.files.pop_lru()
        {
            self.used -= least.cost;
        }
        self.used += cost;
        self.files.put(path.into(), Kept { resource: Rc::clone(resource), seen, cost });
    }

    pub(crate) fn forget(&mut self, path: &str) {
        if let Some(kept) = self.files.pop(path) {
            self.used -= kept.cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, Finding};
    use crate::rules::Rules;

    fn file(root: &Path, size: usize) -> Rc<Resource> {
        fs::write(root.join("file"), vec![0; size]).expect("a file");
        let disk = Disk { root: root.to_owned(), small: 10_000, rules: Rules::default() };
        match disk.find("file", None) {
            Ok(Finding::File(resource)) => Rc::from(resource),
            found => panic!("{found:?}"),
        }
    }

    #[test]
    fn bytes_are_bounded_and_the_least_recently_used_go_first() {
        let root = tempfile::tempdir().expect("a folder");
        let (small, large, now) = (file(root.path(), 1000), file(root.path(), 9000), Moment::now());
        let each = small.cost.expect("small") + 1;
        let mut cache = Cache::new(3 * each);
        for path in ["a", "b", "c"] {
            cache.keep(path, &small, now);
        }
        assert_eq!(cache.used, 3 * each);
        assert!(cache.get("a").is_some());
        cache.keep("d", &small, now);
        let kept = |cache: &Cache| ["a", "b", "c", "d"].map(|path| cache.peek(path).is_some());
        assert_eq!(kept(&cache), [true, false, true, true]);
        // Caching the same file again needs no additional room. If a file is too large, it is not
        // cached, and its previous version is removed.
        cache.keep("d", &small, now);
        assert_eq!(cache.used, 3 * each);
        cache.keep("d", &large, now);
        assert_eq!(kept(&cache), [true, false, true, false]);
        cache.forget("a");
        cache.forget("a");
        cache.forget("c");
        assert_eq!(cache.used, 0);
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let root = tempfile::tempdir().expect("a folder");
        let mut cache = Cache::new(0);
        cache.keep("a", &file(root.path(), 0), Moment::now());
        assert!(cache.peek("a").is_none());
        assert_eq!(cache.used, 0);
    }
}
