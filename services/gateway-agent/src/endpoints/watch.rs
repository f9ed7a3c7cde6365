//! Lists and watches the slices of a namespace's Services indefinitely.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::runtime::utils::Backoff;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tracing::{info, warn};

use super::cluster::{Cluster, SERVICE};

/// Slices per list page, which bounds the response size.
const PAGE: u32 = 100;

/// The API server ends each watch after this time, which shows that it is reachable.
const WATCH_SECONDS: u32 = 60;

/// After this time without a bookmark or the end of the watch, the connection is considered dead.
pub(crate) const SILENCE: Duration = Duration::from_secs(75);

/// Shortest and longest pause after failures. Even the longest pause is short, because an agent
/// sends few requests, and because stale endpoints cause failed requests at the gateway.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) api: Api<EndpointSlice>,
    pub(crate) namespace: String,
    pub(crate) clusters: Vec<Arc<Cluster>>,
    pub(crate) pages: Arc<Semaphore>,
}

impl Watch {
    pub(crate) async fn run(&self) {
        let mut pauses = Pauses::default();
        let mut version = None;
        loop {
            match self.turn(&mut version).await {
                Ok(()) => pauses = Pauses::default(),
                Err(error) => {
                    // If no changes were lost, resume from the last version.
                    if matches!(error, kube::Error::Api(_)) {
                        version = None;
                    }
                    let pause = pauses.next().unwrap_or(PAUSES.1);
                    self.failed(&error, pause);
                    sleep(pause).await;
                }
            }
        }
    }

    fn failed(&self, error: &kube::Error, pause: Duration) {
        let (namespace, pause_ms) = (&self.namespace, pause.as_millis() as u64);
        let words = match error {
            kube::Error::Api(status) => format!("{} {}", status.code, status.message),
            error => error.to_string(),
        };
        self.clusters.iter().for_each(|it| it.status.watch_failed(&words));
        match error {
            kube::Error::Api(status) if status.code == 403 => warn!(
                namespace,
                pause_ms,
                "endpoints: API server: {words}; required are the verbs list and watch on endpointslices \
                 (discovery.k8s.io) of this namespace, by a Role and a RoleBinding"
            ),
            _ => warn!(namespace, pause_ms, "endpoints: API server: {words}"),
        }
    }

    /// Runs one list, or one watch until it ends.
    async fn turn(&self, version: &mut Option<String>) -> kube::Result<()> {
        match version.take() {
            None => *version = self.list().await?,
            Some(from) => {
                *version = Some(from);
                self.watch(version).await?;
                if self.clusters.iter().any(|it| it.overflowed()) {
                    *version = None;
                }
            }
        }
        Ok(())
    }

    fn labels(&self) -> String {
        let names: BTreeSet<_> = self.clusters.iter().map(|it| it.service.name.as_str()).collect();
        format!("{SERVICE} in ({})", Vec::from_iter(names).join(","))
    }

    /// Reads all slices and applies them only when the list is complete. Returns the version to
    /// watch from, or `None` if relisting would admit more slices.
    async fn list(&self) -> kube::Result<Option<String>> {
        let mut drafts: Vec<_> = self.clusters.iter().map(|it| it.draft()).collect();
        let mut slices = 0;
        let mut page = ListParams::default().labels(&self.labels()).limit(PAGE);
        loop {
            let _permit = self.pages.acquire().await;
            let list = self.api.list(&page).await?;
            slices += list.items.len();
            for slice in &list.items {
                for (cluster, draft) in self.clusters.iter().zip(&mut drafts) {
                    cluster.add(draft, slice);
                }
            }
            if let Some(token) = list.metadata.continue_.filter(|token| !token.is_empty()) {
                page = page.continue_token(&token);
                continue;
            }
            let mut again = false;
            for (cluster, draft) in self.clusters.iter().zip(drafts) {
                again |= cluster.take(draft);
            }
            info!(namespace = self.namespace, slices, "endpoints: listed");
            return Ok((!again).then(|| list.metadata.resource_version.unwrap_or_default()));
        }
    }

    /// Applies changes, advancing `version`, until the API server ends the watch.
    async fn watch(&self, version: &mut Option<String>) -> kube::Result<()> {
        let wanted = WatchParams::default().labels(&self.labels()).timeout(WATCH_SECONDS);
        let from = version.clone().unwrap_or_default();
        let mut events = pin!(self.api.watch(&wanted, &from).await?);
        self.synced();
        while let Some(event) = events.try_next().await? {
            let seen = match event {
                WatchEvent::Added(slice) | WatchEvent::Modified(slice) => {
                    self.clusters.iter().for_each(|it| it.put(&slice));
                    slice.metadata.resource_version
                }
                WatchEvent::Deleted(slice) => {
                    self.clusters.iter().for_each(|it| it.remove(&slice));
                    slice.metadata.resource_version
                }
                WatchEvent::Bookmark(mark) => Some(mark.metadata.resource_version),
                // 410 Gone: the API server no longer has the changes since `from`.
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            *version = seen.or(version.take());
            self.synced();
        }
        Ok(())
    }

    fn synced(&self) {
        self.clusters.iter().for_each(|it| it.status.synced());
    }
}

/// Exponential backoff. Each pause is shortened by a random part of up to half, so that gateways do
/// not retry at the same time.
#[derive(Debug, Default)]
pub(crate) struct Pauses(u32);

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let (first, longest) = PAUSES;
        let pause = first.saturating_mul(1 << self.0.min(16)).min(longest);
        self.0 += 1;
        // `RandomState` gets a new key each time, which is random enough.
        let chance = RandomState::new().hash_one(self.0) as f64 / u64::MAX as f64;
        Some(pause.mul_f64(1.0 - chance / 2.0))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let mut pauses = Pauses::default();
        let seen: Vec<_> = pauses.by_ref().take(40).collect();
        for (index, pause) in seen.iter().enumerate() {
            let whole = PAUSES.0.saturating_mul(1 << index.min(16)).min(PAUSES.1);
            assert!((whole / 2..=whole).contains(pause), "{index}: {pause:?}");
        }
        assert_ne!(seen[20], seen[21]);
    }
}
