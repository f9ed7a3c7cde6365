//! An Envoy cluster: its Service's slices and its endpoints file.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use super::assignment::{self, Counts};
use super::file::File;
use super::slice::Slice;
use super::status::Status;
use super::store::Store;
use crate::settings::Service;

/// Label that names the slice's Service (Kubernetes API, EndpointSlice v1).
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";

/// Time to wait for further changes, because a rollout step often makes several changes.
const GATHER: Duration = Duration::from_millis(5);

/// Minimum time between file writes, because Envoy's main thread reads each file.
const BETWEEN: Duration = Duration::from_millis(50);

/// Delay before retrying a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// State shared by a cluster's watch and its file. The store is `None` until the first list is
/// complete.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) service: Service,
    pub(crate) status: Status,
    limit: usize,
    store: Mutex<Option<Store>>,
    changed: Notify,
    file: watch::Sender<bool>,
}

#[derive(Debug)]
pub(crate) struct Draft {
    store: Store,
    not_taken: u64,
}

impl Cluster {
    pub(crate) fn new(service: Service, limit: usize) -> Self {
        let (status, store, changed, file) = Default::default();
        Self { service, status, limit, store, changed, file }
    }

    pub(crate) fn adopted(&self) {
        self.status.adopted();
        self.file.send_replace(true);
    }

    pub(crate) async fn written(&self) {
        // Waiting fails only if the sender is gone, but `self` owns the sender.
        let _ = self.file.subscribe().wait_for(|file| *file).await;
    }

    fn has(&self, slice: &EndpointSlice) -> bool {
        let label = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE));
        label == Some(&self.service.name)
    }

    pub(crate) fn draft(&self) -> Draft {
        let known = self.store().as_ref().map(Store::relist);
        // Leaves room for slices that are listed twice or have no serving endpoint.
        Draft { store: known.unwrap_or_else(|| Store::new(4 * self.limit)), not_taken: 0 }
    }

    pub(crate) fn add(&self, draft: &mut Draft, slice: &EndpointSlice) {
        if self.has(slice) {
            let taken = draft.store.put(name(slice), Slice::of(slice, &self.service));
            draft.not_taken += u64::from(!taken);
        }
    }

    /// Applies a complete list. Returns whether relisting would admit more slices.
    pub(crate) fn take(&self, draft: Draft) -> bool {
        let Draft { mut store, not_taken } = draft;
        // Deleted slices occupied space until now.
        let again = store.finish_list() && store.overflowed();
        let before = self.store().replace(store);
        self.note_limit(not_taken, before.is_some_and(|it| it.overflowed()));
        self.status.listed();
        self.status.synced();
        self.changed.notify_one();
        again
    }

    /// Adds or updates a slice, or removes it if it now belongs to another Service.
    pub(crate) fn put(&self, slice: &EndpointSlice) {
        if !self.has(slice) {
            return self.remove(slice);
        }
        if let Some(store) = self.store().as_mut() {
            let before = store.overflowed();
            let taken = store.put(name(slice), Slice::of(slice, &self.service));
            self.note_limit(u64::from(!taken), before);
        }
        self.changed.notify_one();
    }

    pub(crate) fn remove(&self, slice: &EndpointSlice) {
        if self.store().as_mut().is_some_and(|store| store.remove(&name(slice))) {
            self.changed.notify_one();
        }
    }

    /// Whether slices were left out for lack of room. Only a new list can admit these slices.
    pub(crate) fn overflowed(&self) -> bool {
        self.store().as_ref().is_some_and(Store::overflowed)
    }

    /// Counts slices beyond the limit. Logs only the first such slice until a list fits, because a
    /// rollout changes slices many times.
    fn note_limit(&self, not_taken: u64, before: bool) {
        if not_taken == 0 {
            return;
        }
        self.status.over_limit(not_taken);
        if !before {
            let (cluster, endpoints) = (&self.service.cluster, 4 * self.limit);
            warn!(
                cluster,
                endpoints,
                "endpoints: above the limit, four times --limit: a slice that is too large is not \
                 taken, and its previous endpoints stay"
            );
        }
    }

    /// Rewrites the file after changes and coalesces simultaneous changes. Never returns.
    pub(crate) async fn write(&self, mut file: File) {
        let mut earliest = Instant::now();
        loop {
            self.changed.notified().await;
            sleep_until(earliest.max(Instant::now() + GATHER)).await;
            earliest = Instant::now() + BETWEEN;
            while let Err(error) = self.update(&mut file) {
                self.status.write_failed(&error);
                error!("endpoints: {} cannot be written: {error}", file.path().display());
                sleep_until(Instant::now() + AGAIN).await;
            }
        }
    }

    fn update(&self, file: &mut File) -> io::Result<()> {
        let cluster = self.service.cluster.as_str();
        let (text, counts, slices) = match self.store().as_ref() {
            None => return Ok(()),
            Some(store) => {
                let slices = store.slices();
                let number = slices.len();
                let (text, counts) = assignment::assignment(cluster, slices, self.limit);
                (text, counts, number)
            }
        };
        let written = file.replace(text)?;
        self.status.current(counts, slices, written);
        self.file.send_replace(true);
        if written {
            let Counts { healthy, draining, unready, left_out } = counts;
            info!(cluster, healthy, draining, unready, left_out, "endpoints: written");
        }
        Ok(())
    }

    fn store(&self) -> MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn name(slice: &EndpointSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::settings::Port;

    fn cluster(name: &str) -> Cluster {
        let (cluster, name) = (name.to_owned(), name.to_owned());
        let port = Port::Number(80);
        Cluster::new(Service { cluster, namespace: None, name, port, health_port: None }, 10)
    }

    fn slice(name: &str, service: &str) -> EndpointSlice {
        let metadata = json!({"name": name, "labels": {SERVICE: service}});
        let endpoints = json!([{"addresses": ["10.0.0.1"]}]);
        let slice = json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints});
        serde_json::from_value(slice).expect("a slice")
    }

    fn slices(cluster: &Cluster) -> usize {
        cluster.store().as_ref().map_or(0, |store| store.slices().len())
    }

    #[test]
    fn a_slice_is_of_the_service_that_its_label_names() {
        let (one, two) = (cluster("one"), cluster("two"));
        for each in [&one, &two] {
            let mut draft = each.draft();
            each.add(&mut draft, &slice("a", "one"));
            each.take(draft);
            each.put(&slice("b", "two"));
        }
        assert_eq!((slices(&one), slices(&two)), (1, 1));
        // The slice's label changes.
        for each in [&one, &two] {
            each.put(&slice("a", "two"));
        }
        assert_eq!((slices(&one), slices(&two)), (0, 2));
        for each in [&one, &two] {
            each.remove(&slice("b", "two"));
        }
        assert_eq!((slices(&one), slices(&two)), (0, 1));
    }

    #[test]
    fn nothing_is_known_before_the_first_list() {
        let one = cluster("one");
        one.put(&slice("a", "one"));
        assert_eq!(slices(&one), 0);
        assert!(one.store().is_none());
    }
}
