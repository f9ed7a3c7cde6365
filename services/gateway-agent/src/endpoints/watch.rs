//! Lists the slices of a Service and watches them, indefinitely.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{info, warn};

use super::slice::{Ports, Slice};
use super::status::Status;
use super::store::Store;

/// Label that names a slice's Service (Kubernetes API, EndpointSlice v1).
const SERVICE: &str = "kubernetes.io/service-name";

/// Slices per page of a list, which bounds the size of a reply.
const PAGE: u32 = 100;

/// The API server ends a watch after this time, which shows that it is reachable.
const WATCH_SECONDS: u32 = 60;

/// A bookmark or the end of the watch is overdue after this time.
const SILENCE: Duration = Duration::from_secs(75);

const CONNECT: Duration = Duration::from_secs(5);

/// Shortest and longest pause between failures. The longest is short, because an agent sends few
/// requests, and gateways with old endpoints fail requests.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("not in a pod with a service account's token, and no --kubeconfig: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    #[error("{0}")]
    File(#[from] kube::config::KubeconfigError),
    #[error("{0}")]
    Client(#[from] kube::Error),
}

/// The watched slices and the state of the agent. The store is `None` before the first complete
/// list.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) api: Api<EndpointSlice>,
    pub(crate) service: String,
    pub(crate) ports: Ports,
    pub(crate) limit: usize,
    pub(crate) status: Arc<Status>,
    pub(crate) store: Mutex<Option<Store>>,
    pub(crate) changed: Notify,
}

/// A client for the API server of the pod's own cluster, or of a kubeconfig.
pub(crate) async fn client(kubeconfig: Option<&Path>) -> Result<Client, ConfigError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
        }
        // The address comes from the environment, so DNS is not needed.
        None => Config::incluster_env()?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // The loop below decides what to retry.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

impl Watch {
    /// Never returns: all failures are retried.
    pub(crate) async fn run(&self) {
        let mut pauses = Pauses::default();
        let mut version = None;
        loop {
            match self.turn(&mut version).await {
                Ok(()) => pauses = Pauses::default(),
                Err(error) => {
                    self.status.watch_failed();
                    // If no changes were lost, the watch continues at its version.
                    if matches!(error, kube::Error::Api(_)) {
                        version = None;
                    }
                    let pause = pauses.next();
                    let pause_ms = pause.as_millis() as u64;
                    warn!(pause_ms, "endpoints: API server: {error}");
                    sleep(pause).await;
                }
            }
        }
    }

    /// One list, or one watch to its end.
    async fn turn(&self, version: &mut Option<String>) -> kube::Result<()> {
        match version.take() {
            None => *version = self.list().await?,
            Some(from) => {
                *version = Some(from);
                self.watch(version).await?;
                if self.store().as_ref().is_some_and(Store::overflowed) {
                    *version = None;
                }
            }
        }
        Ok(())
    }

    /// Reads all slices, and applies them only when the list is complete. Returns the version to
    /// watch from, or `None` if another list takes more slices.
    async fn list(&self) -> kube::Result<Option<String>> {
        let known = self.store().as_ref().map(Store::relist);
        let mut store = known.unwrap_or_else(|| Store::new(self.limit));
        let mut not_taken = 0;
        let labels = format!("{SERVICE}={}", self.service);
        let mut page = ListParams::default().labels(&labels).limit(PAGE);
        loop {
            let list = self.api.list(&page).await?;
            for slice in &list.items {
                let taken = store.put(name(slice), Slice::of(slice, &self.ports));
                not_taken += u64::from(!taken);
            }
            if let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) {
                page = page.continue_token(&token);
                continue;
            }
            // Slices that no longer exist had their place until now.
            let again = store.finish_list() && store.overflowed();
            let slices = store.slices().len();
            let before = self.store().replace(store);
            self.note_limit(not_taken, before.is_some_and(|it| it.overflowed()));
            self.status.listed();
            self.status.synced();
            self.changed.notify_one();
            info!(slices, "endpoints: listed");
            return Ok((!again).then(|| list.metadata.resource_version.unwrap_or_default()));
        }
    }

    /// Applies changes until the API server ends the watch. Updates `version` with each.
    async fn watch(&self, version: &mut Option<String>) -> kube::Result<()> {
        let labels = format!("{SERVICE}={}", self.service);
        let wanted = WatchParams::default().labels(&labels).timeout(WATCH_SECONDS);
        let from = version.clone().unwrap_or_default();
        let mut events = pin!(self.api.watch(&wanted, &from).await?);
        self.status.synced();
        while let Some(event) = events.try_next().await? {
            let seen = match event {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    self.apply(|it| {
                        let before = it.overflowed();
                        let taken = it.put(name(&slice), Slice::of(&slice, &self.ports));
                        self.note_limit(u64::from(!taken), before);
                    });
                    slice.metadata.resource_version
                }
                WatchEvent::Deleted(slice) => {
                    self.apply(|it| it.remove(&name(&slice)));
                    slice.metadata.resource_version
                }
                WatchEvent::Bookmark(mark) => Some(mark.metadata.resource_version),
                // 410 Gone: the changes since `from` are no longer available.
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            *version = seen.or(version.take());
            self.status.synced();
        }
        Ok(())
    }

    /// Counts slices that the limit left out. Logs only the first until a list fits, because a rollout
    /// changes slices many times.
    fn note_limit(&self, not_taken: u64, before: bool) {
        if not_taken == 0 {
            return;
        }
        self.status.over_limit(not_taken);
        if !before {
            warn!(
                endpoints = self.limit,
                "endpoints: above the limit, four times --limit: a slice that is too large is not \
                 taken, and its former endpoints stay"
            );
        }
    }

    fn apply(&self, change: impl FnOnce(&mut Store)) {
        if let Some(store) = self.store().as_mut() {
            change(store);
        }
        self.changed.notify_one();
    }

    pub(crate) fn store(&self) -> std::sync::MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// Pauses that double, each shortened at random by up to a half, so that gateways do not retry
/// together.
#[derive(Debug, Default)]
struct Pauses(u32);

impl Pauses {
    fn next(&mut self) -> Duration {
        let (first, longest) = PAUSES;
        let pause = first.saturating_mul(1 << self.0.min(16)).min(longest);
        self.0 += 1;
        // It has a new key for each value, which is random enough.
        let chance = RandomState::new().hash_one(self.0) as f64 / u64::MAX as f64;
        pause.mul_f64(1.0 - chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let mut pauses = Pauses::default();
        let seen: Vec<_> = (0..40).map(|_| pauses.next()).collect();
        for (index, pause) in seen.iter().enumerate() {
            let whole = PAUSES.0.saturating_mul(1 << index.min(16)).min(PAUSES.1);
            assert!((whole / 2..=whole).contains(pause), "{index}: {pause:?}");
        }
        assert_ne!(seen[20], seen[21]);
    }
}
