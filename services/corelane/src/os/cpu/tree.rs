//! File trees for tests.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory tree that is removed when dropped.
pub(super) struct Tree(PathBuf);

impl Tree {
    pub(super) fn new(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = std::env::temp_dir().join(format!("corelane-{}-{name}", std::process::id()));
        let tree = Tree(root);
        for (path, text) in files {
            let path = tree.0.join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        tree
    }

    pub(super) fn root(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
