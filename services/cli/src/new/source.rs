//! Where a new service takes Corelane from.

use std::path::{Path, PathBuf};

use crate::checkout;

/// A checkout on this machine, or a tag of a repository.
#[derive(Debug)]
pub(super) enum Source {
    Path(PathBuf),
    Tag(String),
}

impl Source {
    /// The named checkout, otherwise the tag of this version. Without a repository for it, the checkout around the
    /// working directory.
    pub(super) fn find(checkout: Option<&Path>, git: &str) -> Result<Source, String> {
        match checkout {
            Some(path) => checkout::require(path).map(Source::Path),
            None if git.is_empty() => checkout::around().map(Source::Path).ok_or_else(|| {
                "this build does not know the repository of Corelane: pass --git URL or --corelane PATH, or run \
                 this in a checkout"
                    .to_owned()
            }),
            None => Ok(Source::Tag(git.to_owned())),
        }
    }

    /// The keys of a dependency on the crate in this folder of `services`.
    pub(super) fn dependency(&self, folder: &str) -> String {
        match self {
            Source::Path(checkout) => {
                let path = checkout.join("services").join(folder);
                format!("path = {}", quoted(&path.display().to_string()))
            }
            Source::Tag(git) => {
                format!("git = {}, tag = \"v{}\"", quoted(git), env!("CARGO_PKG_VERSION"))
            }
        }
    }
}

/// A basic string of TOML. JSON escapes a subset of what TOML does, in the same way.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
