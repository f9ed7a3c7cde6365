//! The file that Envoy watches. A rename replaces it, because Envoy ignores in-place writes and
//! could read a partial file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct File {
    path: PathBuf,
    content: Option<String>,
}

impl File {
    pub(crate) fn open(path: PathBuf) -> Self {
        let whole = |text: &String| serde_json::from_str::<Value>(text).is_ok();
        let content = fs::read_to_string(&path).ok().filter(whole);
        Self { path, content }
    }

    pub(crate) fn exists(&self) -> bool {
        self.content.is_some()
    }

    pub(crate) fn content(&self) -> Option<&str> {
        self.content.as_deref()
    }

    pub(crate) fn replace(&mut self, text: String) -> io::Result<bool> {
        if self.content.as_ref() == Some(&text) {
            return Ok(false);
        }
        let fresh = self.fresh();
        fs::write(&fresh, &text)?;
        fs::rename(&fresh, &self.path)?;
        self.content = Some(text);
        Ok(true)
    }

    /// Temporary path in the same folder, because a rename across file systems would copy.
    fn fresh(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.new"))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_not_written_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("endpoints.json");
        let mut file = File::open(path.clone());
        assert!(!file.exists());
        assert!(file.replace("{}".to_owned()).expect("written"));
        assert!(!file.replace("{}".to_owned()).expect("the same"));
        let mut next = File::open(path.clone());
        assert!(next.exists());
        assert!(!next.replace("{}".to_owned()).expect("the same"));
        assert!(next.replace("[]".to_owned()).expect("written"));
        assert_eq!(fs::read_to_string(path).expect("readable"), "[]");
        assert_eq!(fs::read_dir(folder.path()).expect("readable").count(), 1);
    }

    #[test]
    fn half_a_file_counts_for_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("endpoints.json");
        fs::write(&path, "{").expect("written");
        assert!(!File::open(path).exists());
    }
}
