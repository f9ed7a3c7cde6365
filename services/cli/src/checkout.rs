//! Finds the Corelane checkout that a project depends on and that also contains the platform.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const CRATES: [&str; 2] = ["corelane-service", "corelane"];

const MARK: &str = "hack/local/__main__.py";

#[derive(Debug)]
pub(crate) struct Project(Value);

impl Project {
    pub(crate) fn read(manifest: &Path) -> Result<Project, String> {
        if !manifest.is_file() {
            return Err(format!(
                "{}: there is no such file; --manifest-path names the Cargo.toml of the service",
                manifest.display()
            ));
        }
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--format-version", "1", "--manifest-path"]).arg(manifest);
        let output = cargo.output().map_err(|error| format!("cargo does not start: {error}"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo metadata failed:\n{}", errors.trim_end()));
        }
        let read = serde_json::from_slice(&output.stdout);
        read.map(Project).map_err(|error| format!("cargo metadata: {error}"))
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0["workspace_root"].as_str().unwrap_or_default().into()
    }

    fn checkout(&self) -> Result<PathBuf, String> {
        let packages = self.0["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let manifests = || {
            CRATES.iter().flat_map(|name| {
                let named = packages.iter().filter(move |package| package["name"] == *name);
                named.filter_map(|package| package["manifest_path"].as_str())
            })
        };
        let found = manifests().find_map(|path| above(Path::new(path)));
        let missing = || match manifests().next() {
            Some(path) => format!("{path} is not in a checkout of Corelane"),
            None => "no package depends on corelane-service or corelane".to_owned(),
        };
        let choices = "depend on it by git or path, or name a checkout with --corelane or \
                       CORELANE_HOME";
        found.ok_or_else(|| format!("{}: {choices}", missing()))
    }
}

pub(crate) fn instance() -> String {
    let named = std::env::var("INSTANCE").ok().filter(|name| !name.is_empty());
    named.unwrap_or_else(|| "default".to_owned())
}

pub(crate) fn recorded(root: &Path) -> Option<PathBuf> {
    let file = root.join(".corelane").join(instance()).join("checkout");
    let text = std::fs::read_to_string(file).ok()?;
    require(Path::new(&text)).ok()
}

pub(crate) fn find(project: Option<&Project>) -> Result<PathBuf, String> {
    let missing = "without a project, --corelane or CORELANE_HOME must name a checkout of Corelane";
    project.map_or_else(|| Err(missing.to_owned()), Project::checkout)
}

pub(crate) fn around() -> Option<PathBuf> {
    above(&std::env::current_dir().ok()?)
}

fn above(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|folder| folder.join(MARK).is_file()).map(Path::to_path_buf)
}

pub(crate) fn require(path: &Path) -> Result<PathBuf, String> {
    let absolute = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    if !absolute.join(MARK).is_file() {
        return Err(format!("{} is not a checkout of Corelane: it has no {MARK}", path.display()));
    }
    Ok(absolute)
}
