//! `corelane up`, `down`, `status`, `logs` and `image` run the checkout's tools on the user's
//! project.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};
use corelane_service::process;

use crate::checkout::{self, Project};

const MANIFEST: &str = "Cargo.toml";

#[derive(Clone, PartialEq)]
enum Subject {
    Package,
    /// Several packages, of which this is the first one's manifest. Their instance belongs to the
    /// working directory.
    Packages(PathBuf),
    Program,
    Instance,
}

/// The project and its Corelane checkout.
#[derive(Args, Debug)]
#[command(next_help_heading = "Project")]
pub(crate) struct Place {
    /// Cargo.toml of the service
    #[arg(long, value_name = "FILE", default_value = MANIFEST)]
    manifest_path: PathBuf,
    /// Corelane checkout [default: the source of the corelane-service dependency]
    #[arg(long, env = "CORELANE_HOME", value_name = "PATH")]
    corelane: Option<PathBuf>,
}

/// Start Envoy, Prometheus and replicas of the service on this machine
///
/// Each replica gets its own CPU if there are enough CPUs. Ports and settings match a
/// cluster. Several services, as in `corelane up shop orders`, share one gateway. It sends requests
/// for NAME.localhost to the service NAME, and all other requests to the first service.
#[derive(Args, Debug)]
#[command(after_help = "Example: REPLICAS=2 corelane up --watch\n\n\
                        Environment: REPLICAS, PROFILE (cargo profile; dev), INSTANCE, DATABASE (none, sqlite or \
                        postgres: DATABASE_URL of the replicas), DASHBOARD_PORT, GATEWAY_PORT, ENVOY_ADMIN_PORT, \
                        GATEWAY_STATS_PORT, PROMETHEUS_PORT, REPLICA_PORT, REPLICA_ADMIN_PORT, POSTGRES_PORT.")]
pub(crate) struct Up {
    /// Folder with a Cargo.toml, or a binary of the project [default: the project's binary]
    #[arg(value_name = "SERVICE", conflicts_with_all = ["bin", "binary"])]
    services: Vec<String>,
    /// Rebuild when a source changes, and roll out replica by replica
    #[arg(long)]
    watch: bool,
    /// Binary of the project to run, if there are several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Program to run instead of the project's binary; may be repeated
    #[arg(long, value_name = "PROGRAM", conflicts_with = "bin")]
    binary: Vec<PathBuf>,
    /// Runtime of the program
    #[arg(long, value_enum, default_value = "corelane")]
    runtime: Runtime,
    /// Path on the request port that returns 200 while a replica is healthy; used with --runtime
    /// other
    #[arg(long, value_name = "PATH", default_value = "/healthz")]
    health: String,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Runtime {
    /// The crate corelane-service
    Corelane,
    /// Any program that serves HTTP on the port in PORT
    Other,
}

/// Commands for a running instance.
#[derive(Args, Debug)]
pub(crate) struct Running {
    #[command(flatten)]
    place: Place,
}

/// Show the latest log lines, or follow one process
#[derive(Args, Debug)]
#[command(after_help = "Example: corelane logs gateway")]
pub(crate) struct Logs {
    /// Process to follow, such as gateway
    name: Option<String>,
    #[command(flatten)]
    place: Place,
}

/// Build an OCI archive of the service without Docker
///
/// The program is linked statically, and the build is reproducible.
#[derive(Args, Debug)]
#[command(after_help = "Example: corelane image --arch amd64,arm64 --tag 1.2.0")]
pub(crate) struct Image {
    /// Binary of the project, if there are several
    #[arg(long, value_name = "NAME")]
    bin: Option<String>,
    /// Architectures: amd64, arm64 [default: this machine's]
    #[arg(long, value_name = "ARCH,...")]
    arch: Option<String>,
    /// Image tag [default: the package version]
    #[arg(long)]
    tag: Option<String>,
    /// Cargo profile of the program
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Archive folder [default: .corelane/images in the project]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// File to add at an absolute path in the image
    #[arg(long = "file", value_name = "FILE=PATH")]
    files: Vec<String>,
    #[command(flatten)]
    place: Place,
}

impl Up {
    pub(crate) fn run(&self) -> ExitCode {
        let folders = self.services.iter().map(|service| Path::new(service).join(MANIFEST));
        let subject = match folders.into_iter().find(|manifest| manifest.is_file()) {
            Some(manifest) => Subject::Packages(manifest),
            None if self.binary.is_empty() => Subject::Package,
            None => Subject::Program,
        };
        self.place.execute("local", subject, |command, root| {
            command.arg("up").args(&self.services).arg("--project").arg(root);
            for program in &self.binary {
                command.arg("--binary").arg(program);
            }
            if self.binary.is_empty() && self.place.manifest_path.is_file() {
                command.arg("--manifest").arg(&self.place.manifest_path);
            }
            option(command, "--bin", &self.bin);
            let runtime = if self.runtime == Runtime::Other { "other" } else { "corelane" };
            command.args(["--runtime", runtime, "--health", &self.health]);
            // The dashboard is a subcommand of this program.
            if let Ok(own) = std::env::current_exe() {
                command.arg("--corelane").arg(own);
            }
            if self.watch {
                command.arg("--watch");
            }
        })
    }
}

impl Running {
    pub(crate) fn run(&self, name: &str) -> ExitCode {
        self.place.execute("local", Subject::Instance, |command, root| {
            command.arg(name).arg("--project").arg(root);
        })
    }
}

impl Logs {
    pub(crate) fn run(&self) -> ExitCode {
        self.place.execute("local", Subject::Instance, |command, root| {
            command.arg("logs").args(&self.name).arg("--project").arg(root);
        })
    }
}

impl Image {
    pub(crate) fn run(&self) -> ExitCode {
        self.place.execute("images", Subject::Package, |command, root| {
            command.arg("project").arg(&self.place.manifest_path);
            option(command, "--bin", &self.bin);
            option(command, "--arch", &self.arch);
            option(command, "--tag", &self.tag);
            command.args(["--profile", &self.profile]);
            let default = || root.join(".corelane/images");
            command.arg("--out").arg(self.out.clone().unwrap_or_else(default));
            for file in &self.files {
                command.args(["--file", file]);
            }
        })
    }
}

fn option(command: &mut Command, flag: &str, value: &Option<String>) {
    if let Some(value) = value {
        command.args([flag, value]);
    }
}

impl Place {
    /// Replaces this process with a tool of the checkout, so that signals and the terminal reach
    /// it. `extend` adds arguments and receives the project folder.
    fn execute(
        &self,
        tool: &str,
        subject: Subject,
        extend: impl FnOnce(&mut Command, &Path),
    ) -> ExitCode {
        let command = self.command(tool, subject, extend);
        let error = match command {
            Ok(mut command) => format!("python3 does not start: {}", command.exec()),
            Err(message) => message,
        };
        process::report(crate::NAME, &error);
        ExitCode::FAILURE
    }

    fn command(
        &self,
        tool: &str,
        subject: Subject,
        extend: impl FnOnce(&mut Command, &Path),
    ) -> Result<Command, String> {
        let chosen = self.manifest_path != Path::new(MANIFEST);
        let needed = subject == Subject::Package || chosen;
        let mut project = match needed || self.manifest_path.is_file() {
            true => Some(Project::read(&self.manifest_path)?),
            false => None,
        };
        let root = match &project {
            Some(project) => project.root(),
            None => std::env::current_dir().map_err(|error| error.to_string())?,
        };
        if let Subject::Packages(first) = &subject {
            project = Some(Project::read(first)?);
        }
        let recorded = || checkout::recorded(&root).filter(|_| subject == Subject::Instance);
        let checkout = match self.corelane.clone().or_else(recorded) {
            Some(named) => checkout::require(&named)?,
            None => checkout::find(project.as_ref())?,
        };
        let mut command = Command::new("python3");
        // The checkout may belong to cargo, so the tool must not write to it.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("CORELANE_HOME");
        command.arg(OsString::from(checkout.join("hack").join(tool)));
        extend(&mut command, &root);
        Ok(command)
    }
}
