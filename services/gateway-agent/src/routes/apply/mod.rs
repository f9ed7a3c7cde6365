//! Writes Envoy's files in an order that gives every request a cluster.
//!
//! New clusters and their endpoints are written first. Once Envoy is ready to use them, the routes
//! follow. Obsolete clusters are removed last. If Envoy rejects a file, the previous content is
//! restored.

mod envoy;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use rustix::fs::inotify::{self, CreateFlags};
use serde_json::Value;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep};
use tracing::{error, info, warn};

use self::envoy::{Envoy, Kind, Outcome};
use super::certificates::Files;
use super::desired::{self, Desired, Update};
use super::status::Status;
use crate::admin::AdminError;
use crate::endpoints::{File, Fleet};
use crate::settings::{Endpoints, OTHER_FILES};

/// Delay after any failure other than a rejection by Envoy.
const AGAIN: Duration = Duration::from_secs(1);

/// Maximum number of files that Envoy watches in addition to routes and listeners: the agent's
/// own files, and mounted files.
const OTHER_WATCHES: usize = 15;

/// Interval between queries while Envoy is not running yet.
const START: Duration = Duration::from_millis(100);

/// Minimum lifetime of a cluster after its last route is gone, for requests that were already
/// routed and their retries.
const STAY: Duration = Duration::from_secs(1);

/// Maximum lifetime of such a cluster. Requests that are still running after that time continue,
/// but without retries.
const STAY_AT_MOST: Duration = Duration::from_secs(10);

const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error("Envoy rejected the {0}; its log says why")]
    Rejected(&'static str),
    #[error("a file cannot be written: {0}")]
    File(#[from] io::Error),
    #[error("Envoy's admin interface: {0}")]
    Admin(#[from] AdminError),
    #[error(
        "{0} new or changed services and certificates need as many inotify instances, without which Envoy aborts: \
         increase fs.inotify.max_user_instances of the node"
    )]
    Watches(usize),
    #[error("there is a newer state")]
    Superseded,
}

pub(crate) struct Applier {
    envoy: Envoy,
    fleet: Fleet,
    status: Arc<Status>,
    /// Clusters in the file: the desired clusters and the clusters that have not been removed yet.
    clusters: BTreeMap<String, Value>,
    files: [File; 4],
    certificates: Files,
    /// Whether applying the current state has changed a file.
    changed: bool,
}

#[derive(Debug)]
struct Former {
    clusters: BTreeMap<String, Value>,
    texts: [Option<String>; 4],
}

impl Applier {
    /// Starts from an earlier agent's files, because Envoy uses them.
    pub(crate) fn new(settings: &Endpoints, mut fleet: Fleet, status: Arc<Status>) -> Self {
        let folder = &settings.folder;
        let files = Kind::ALL.map(|kind| File::open(folder.join(kind.file())));
        let clusters = files[Kind::Clusters as usize].content();
        let clusters = clusters.and_then(desired::clusters_of_file).unwrap_or_default();
        remove_stale(folder, &clusters);
        fleet.set(&desired::services(&clusters));
        if complete(&files) {
            status.written();
        }
        let envoy = Envoy::new(settings.envoy_admin);
        let certificates = Files::new(folder);
        Self { envoy, fleet, status, clusters, files, certificates, changed: false }
    }

    /// Applies the newest state after each change. Never returns.
    pub(crate) async fn run(mut self, mut newest: Receiver<Option<Arc<Desired>>>) {
        let mut failure = String::new();
        if complete(&self.files) {
            tokio::select! {
                () = self.adopt() => {}
                _ = newest.changed() => {}
            }
        }
        // The sender lives as long as the source, which never returns.
        while newest.borrow().is_some() || newest.changed().await.is_ok() {
            let Some(wanted) = newest.borrow_and_update().clone() else { continue };
            let former = self.former();
            let result = match self.apply(&wanted, &mut newest).await {
                Ok(()) => self.retire(&wanted, &mut newest).await,
                Err(reason) => Err(reason),
            };
            match result {
                Ok(()) => failure.clear(),
                Err(ApplyError::Superseded) => continue,
                Err(reason @ ApplyError::Rejected(_)) => {
                    error!("routes: {reason}; the previous routes stay");
                    self.restore(former);
                    self.status.rejected(self.serves().await);
                }
                Err(reason) => {
                    let words = reason.to_string();
                    if failure != words {
                        warn!("routes: not applied yet: {words}");
                    }
                    self.status.failed(&words);
                    failure = words;
                    sleep(AGAIN).await;
                    continue;
                }
            }
            let _ = newest.changed().await;
        }
    }

    /// Waits for an Envoy that has an earlier agent's routes. This does not need the API server.
    async fn adopt(&self) {
        while !self.serves().await {
            sleep(START).await;
        }
        self.status.taken_before();
    }

    /// Applies a state to Envoy. If Envoy is not running, writes the files and waits for it.
    async fn apply(
        &mut self,
        wanted: &Desired,
        newest: &mut Receiver<Option<Arc<Desired>>>,
    ) -> Result<(), ApplyError> {
        let mut both = self.clusters.clone();
        both.extend(wanted.clusters.clone());
        self.status.outdated();
        // Envoy rejects a cluster without an endpoint file.
        self.fleet.set(&desired::services(&both));
        tokio::select! {
            () = self.fleet.written(wanted.clusters.keys()) => {}
            _ = newest.changed() => return Err(ApplyError::Superseded),
        }
        self.check_watches(wanted).await?;
        let updates = [
            Some(Update::of_clusters(&both)),
            Some(wanted.rate_limits_file()),
            wanted.listeners_file(),
            Some(wanted.routes_file()),
        ];
        let updates = Kind::ALL.into_iter().zip(updates);
        let updates: Vec<_> = updates.filter_map(|(kind, it)| Some((kind, it?))).collect();
        self.clusters = both;
        self.changed |= self.certificates.write(&wanted.certificates)?;
        for (kind, update) in &updates {
            self.write(*kind, update).await?;
            if *kind == Kind::Clusters {
                self.envoy.warmed().await?;
            }
        }
        self.status.written();
        for (kind, update) in &updates {
            tokio::select! {
                result = self.confirm(*kind, update) => result?,
                _ = newest.changed() => return Err(ApplyError::Superseded),
            }
        }
        self.certificates.retain(&wanted.certificates);
        let clusters = wanted.clusters.len();
        self.status.applied(self.changed);
        info!(clusters, changed = self.changed, "routes: applied");
        self.changed = false;
        Ok(())
    }

    /// Limits the number of watched files: Envoy aborts if the kernel has no inotify instance for a
    /// file. The kernel counts instances per user, and all containers of the pod run as the same
    /// user.
    async fn check_watches(&self, wanted: &Desired) -> Result<(), ApplyError> {
        let starts = self.envoy.subscription(Kind::Clusters).await?.is_none();
        let new = |(name, it): &(&String, &Value)| starts || self.clusters.get(*name) != Some(it);
        let clusters = wanted.clusters.iter().filter(new).count();
        let number = clusters + self.certificates.missing(&wanted.certificates);
        let more = if starts { number + OTHER_WATCHES } else { number };
        let held: Result<Vec<_>, _> =
            (0..more).map(|_| inotify::init(CreateFlags::CLOEXEC)).collect();
        held.map(drop).map_err(|_| ApplyError::Watches(number))
    }

    /// Waits for Envoy's result if Envoy is running.
    async fn write(&mut self, kind: Kind, update: &Update) -> Result<(), ApplyError> {
        let before = self.envoy.subscription(kind).await?.map_or(0, |it| it.rejected);
        let written = self.files[kind as usize].replace(update.text.clone())?;
        self.changed |= written;
        // Envoy may have rejected the content that an earlier agent wrote.
        let before = if written { before } else { 0 };
        match self.envoy.settled(kind, &update.version, before).await? {
            Outcome::Rejected => Err(ApplyError::Rejected(kind.name())),
            Outcome::Applied | Outcome::Absent => Ok(()),
        }
    }

    async fn confirm(&self, kind: Kind, update: &Update) -> Result<(), ApplyError> {
        loop {
            match self.envoy.settled(kind, &update.version, 0).await? {
                Outcome::Applied => return Ok(()),
                Outcome::Rejected => return Err(ApplyError::Rejected(kind.name())),
                Outcome::Absent => sleep(START).await,
            }
        }
    }

    /// Removes obsolete clusters once their requests have finished.
    async fn retire(
        &mut self,
        wanted: &Desired,
        newest: &mut Receiver<Option<Arc<Desired>>>,
    ) -> Result<(), ApplyError> {
        let gone = self.clusters.keys().filter(|name| !wanted.clusters.contains_key(*name));
        let gone: Vec<_> = gone.cloned().collect();
        if gone.is_empty() {
            return Ok(());
        }
        tokio::select! {
            () = self.unused(&gone) => {}
            _ = newest.changed() => return Err(ApplyError::Superseded),
        }
        self.clusters = wanted.clusters.clone();
        self.write(Kind::Clusters, &Update::of_clusters(&self.clusters)).await?;
        self.fleet.set(&desired::services(&self.clusters));
        info!(clusters = gone.join(","), "routes: removed");
        self.changed = false;
        Ok(())
    }

    async fn unused(&self, clusters: &[String]) {
        let until = Instant::now() + STAY_AT_MOST;
        sleep(STAY).await;
        while Instant::now() < until && !self.envoy.idle(clusters).await {
            sleep(LOOK).await;
        }
    }

    fn former(&self) -> Former {
        let texts = [0, 1, 2, 3].map(|index: usize| self.files[index].content().map(str::to_owned));
        Former { clusters: self.clusters.clone(), texts }
    }

    /// Restores the previous files, because a restarting Envoy must not begin with a rejected file.
    fn restore(&mut self, former: Former) {
        for (file, text) in self.files.iter_mut().zip(former.texts).rev() {
            let Some(text) = text else { continue };
            if let Err(error) = file.replace(text) {
                error!("routes: {} cannot be restored: {error}", file.path().display());
            }
        }
        self.changed = false;
        self.clusters = former.clusters;
        self.fleet.set(&desired::services(&self.clusters));
    }

    async fn serves(&self) -> bool {
        let found = self.envoy.subscription(Kind::Routes).await;
        found.ok().flatten().is_some_and(|it| !it.version.is_empty())
    }
}

/// Whether Envoy can start with these files. A listeners file, if there is one, was written before
/// the routes file.
fn complete(files: &[File; 4]) -> bool {
    let needed = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Listeners);
    needed.into_iter().all(|kind| files[kind as usize].exists())
}

/// Deletes cluster files that an earlier agent left behind: their endpoints are stale.
fn remove_stale(folder: &Path, clusters: &BTreeMap<String, Value>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let own = Kind::ALL.iter().any(|kind| path.ends_with(kind.file()));
        let stale = !own && !OTHER_FILES.contains(&&*name) && !clusters.contains_key(&*name);
        if stale && path.extension().is_some_and(|it| it == "json") {
            let _ = fs::remove_file(&path);
        }
    }
}
