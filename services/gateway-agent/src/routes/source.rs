//! Routes from the chart's values, read from the ConfigMap that the chart renders.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_of};
use kube::{Api, Client};
use tokio::sync::watch::Sender;
use tracing::warn;

use super::desired::Desired;
use super::status::Status;
use crate::endpoints::Pauses;
use crate::settings::ObjectName;

/// The API server ends each watch after this time, which shows that it is reachable.
const WATCH_SECONDS: u32 = 60;

#[derive(Debug)]
pub(crate) struct Source {
    api: Api<ConfigMap>,
    namespace: String,
    name: String,
    status: Arc<Status>,
}

impl Source {
    pub(crate) fn new(client: &Client, from: &ObjectName, status: Arc<Status>) -> Self {
        let default = || client.default_namespace().to_owned();
        let namespace = from.namespace.clone().unwrap_or_else(default);
        let api = Api::namespaced(client.clone(), &namespace);
        Self { api, namespace, name: from.name.clone(), status }
    }

    /// Sends each readable state. Never returns: failures are retried, and the last state stays
    /// even if the ConfigMap is deleted.
    pub(crate) async fn run(self, newest: Sender<Option<Arc<Desired>>>) {
        // Watches the ConfigMap only by name, so that a Role can name it.
        let config = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let config = config.timeout(WATCH_SECONDS);
        let mut events = pin!(watch_of(self.api.clone(), config).backoff(Pauses::default()));
        let mut listed = false;
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = false,
                Ok(Event::Apply(map) | Event::InitApply(map)) => {
                    listed = true;
                    self.read(map, &newest);
                }
                Ok(Event::InitDone) if listed => {}
                Ok(Event::InitDone | Event::Delete(_)) => self.failed("it does not exist"),
                Err(error) => self.failed(&error.to_string()),
            }
        }
    }

    fn read(&self, map: ConfigMap, newest: &Sender<Option<Arc<Desired>>>) {
        match Desired::read(&map.data.unwrap_or_default()) {
            Ok(desired) => {
                newest.send_if_modified(|known| {
                    let changed = known.as_deref() != Some(&desired);
                    *known = Some(Arc::new(desired));
                    changed
                });
            }
            Err(error) => {
                self.status.rejected(false);
                self.failed(&error.to_string());
            }
        }
    }

    fn failed(&self, words: &str) {
        let words = format!("ConfigMap {}/{}: {words}", self.namespace, self.name);
        warn!("routes: {words}");
        self.status.failed(&words);
    }
}
