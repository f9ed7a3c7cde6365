//! `corelane new`: writes a service that compiles and passes its tests.

mod name;
mod template;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::{fs, io};

use clap::Args;
use corelane_service::flags::allowed;
use corelane_service::process;

use self::name::Name;
use self::template::Template;
use crate::{checkout, shell};

/// Variables and fields of the `rest` template.
const USED: [&str; 7] = ["called", "database", "greeting", "lane", "settings", "start", "url"];

/// Create a service in a new folder
#[derive(Args, Debug)]
#[command(
    after_help = "Example: corelane new shop --template grpc && cd shop && corelane up --watch"
)]
pub(crate) struct New {
    /// Folder to create; its last part is the name of the service
    #[arg(value_name = "NAME", value_parser = allowed(name::read))]
    name: Name,
    /// Protocol of the service
    #[arg(long, value_enum, default_value = "rest")]
    template: Template,
    /// Service that it calls; with the template rest
    #[arg(long, value_name = "SERVICE", value_parser = allowed(name::read))]
    calls: Option<Name>,
    /// Corelane checkout to depend on, instead of this program's release
    #[arg(long, value_name = "PATH")]
    corelane: Option<PathBuf>,
    /// Corelane repository to depend on, at the tag of this program's version
    #[arg(long, value_name = "URL", conflicts_with = "corelane")]
    #[arg(default_value = env!("CARGO_PKG_REPOSITORY"), hide_default_value = true)]
    git: String,
}

pub(crate) fn run(new: &New) -> ExitCode {
    match new.create() {
        Ok(()) => {
            process::print(&format!(
                "Created {folder}. Next: cd {quoted}, then cargo test or corelane up --watch\n",
                folder = new.name.folder.display(),
                quoted = shell::quoted(&new.name.folder.display().to_string())
            ));
            ExitCode::SUCCESS
        }
        Err(message) => {
            process::report(crate::NAME, &message);
            ExitCode::FAILURE
        }
    }
}

impl New {
    fn create(&self) -> Result<(), String> {
        self.require_callable()?;
        let source = Source::find(self.corelane.as_deref(), &self.git)?;
        let folder = &self.name.folder;
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        require_free(folder)?;
        // Written under a temporary name and renamed at the end, so that the folder appears
        // complete or not at all.
        let parent = folder.parent().filter(|path| !path.as_os_str().is_empty());
        let fresh = tempfile::Builder::new()
            .prefix(".corelane-new-")
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .tempdir_in(parent.unwrap_or(Path::new(".")))
            .map_err(failed)?;
        for (path, text) in self.template.files() {
            let file = fresh.path().join(path);
            fs::create_dir_all(file.parent().expect("below the folder")).map_err(failed)?;
            fs::write(file, self.filled(text, &source)).map_err(failed)?;
        }
        format(fresh.path());
        fs::rename(fresh.path(), folder).map_err(failed)?;
        // After the rename, there is nothing left to remove.
        let _ = fresh.keep();
        Ok(())
    }

    fn require_callable(&self) -> Result<(), String> {
        match &self.calls {
            Some(called) if called.label == self.name.label => {
                Err(format!("--calls {}: a service needs no client for itself", called.label))
            }
            Some(called) if USED.contains(&called.label.as_str()) => {
                Err(format!("--calls {}: the template uses this name otherwise", called.label))
            }
            Some(_) if !matches!(self.template, Template::Rest) => {
                Err("--calls needs --template rest; docs/call-service.md shows the code for others"
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Fills in the names. A line that ends in `//+calls` or `#+calls` is for services that call
    /// another one, and `//-calls` for the others.
    fn filled(&self, text: &str, source: &Source) -> String {
        let (kept, dropped) =
            if self.calls.is_some() { ("+calls", "-calls") } else { ("-calls", "+calls") };
        let lines = text.split_inclusive('\n').filter(|line| !line.trim_end().ends_with(dropped));
        let text: String = lines
            .map(|line| match line.trim_end().strip_suffix(kept) {
                Some(line) => line.trim_end_matches(['/', '#']).trim_end().to_owned() + "\n",
                None => line.to_owned(),
            })
            .collect();
        let called = self.calls.as_ref().map_or("", |called| &called.label);
        text.replace("__CALLED__", called)
            .replace("__CALLS__", &called.replace('-', "_"))
            .replace("__CLIENT__", &source.dependency("client"))
            .replace("__NAME__", &self.name.label)
            .replace("__CRATE__", &self.name.label.replace('-', "_"))
            .replace("__CORELANE__", &source.dependency("corelane"))
            .replace("__SERVICE__", &source.dependency("service"))
            .replace("__ABOUT__", self.template.about())
            .replace("__TRY__", self.template.command())
    }
}

/// The formatting depends on the length of the name and its position among the imports. If rustfmt
/// is missing, the code still works but is not formatted.
fn format(folder: &Path) {
    let rust = ["build.rs", "src/lib.rs", "src/main.rs", "tests/service.rs"];
    let files = rust.map(|file| folder.join(file)).into_iter().filter(|file| file.exists());
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--edition", "2024"]).args(files);
    let _ = rustfmt.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Accepts an empty folder.
fn require_free(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("{shown} is not empty: choose another name or remove it")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

#[derive(Debug)]
enum Source {
    Path(PathBuf),
    Tag(String),
}

impl Source {
    /// Falls back to the tag of this version, or to the checkout around the working directory if
    /// there is no repository.
    fn find(checkout: Option<&Path>, git: &str) -> Result<Source, String> {
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

    fn dependency(&self, folder: &str) -> String {
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

/// A JSON string is also a valid basic TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
