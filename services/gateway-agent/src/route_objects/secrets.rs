//! Secrets with the certificates of the Gateway's listeners, and ConfigMaps with the CAs of
//! BackendTLSPolicies, as last sent by the API server.
//!
//! Each object is watched by name, so that a Role can name it, and only while another object refers
//! to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_of};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::warn;

use crate::endpoints::{Pauses, Task};
use crate::routes::Certificate;

/// The API server ends each watch after this time, which shows that it is reachable.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// NAMESPACE/NAME of a Secret, or with a prefix of a ConfigMap.
pub(crate) type Name = String;

/// Prefix of a ConfigMap's name.
pub(crate) const AUTHORITIES: &str = "ca/";

pub(crate) type Found = BTreeMap<Name, Result<Arc<Certificate>, String>>;

pub(crate) struct Secrets {
    client: Client,
    watches: BTreeMap<Name, Task>,
    known: Arc<Known>,
}

#[derive(Debug, Default)]
struct Known {
    found: Mutex<Found>,
    changed: Notify,
}

impl Secrets {
    pub(crate) fn new(client: &Client) -> Self {
        Self { client: client.clone(), watches: BTreeMap::new(), known: Arc::default() }
    }

    pub(crate) fn follow(&mut self, wanted: &BTreeSet<Name>) {
        self.watches.retain(|name, _| wanted.contains(name));
        self.known.all().retain(|name, _| wanted.contains(name));
        for name in wanted
            .iter()
            .filter(|name| !self.watches.contains_key(*name))
            .cloned()
            .collect::<Vec<_>>()
        {
            let (client, known) = (self.client.clone(), Arc::clone(&self.known));
            let task = match name.starts_with(AUTHORITIES) {
                true => Task::start(watch::<ConfigMap>(client, name.clone(), known)),
                false => Task::start(watch::<Secret>(client, name.clone(), known)),
            };
            self.watches.insert(name, task);
        }
    }

    pub(crate) async fn changed(&self) {
        self.known.changed.notified().await;
    }

    pub(crate) fn found(&self) -> Option<Found> {
        let found = self.known.all().clone();
        self.watches.keys().all(|name| found.contains_key(name)).then_some(found)
    }
}

impl Known {
    fn all(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn set(&self, name: &str, value: Result<Arc<Certificate>, String>) {
        self.all().insert(name.to_owned(), value);
        self.changed.notify_one();
    }
}

trait Source:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + 'static
{
    /// What to change if the agent may not read the object.
    const PERMISSION: &str;

    fn read(&self) -> Result<Arc<Certificate>, String>;
}

/// Watches one object and never returns. The last state stays while the API server is unreachable.
async fn watch<K: Source>(client: Client, name: Name, known: Arc<Known>) {
    let full = name.strip_prefix(AUTHORITIES).unwrap_or(&name);
    let (namespace, own) = full.split_once('/').unwrap_or_default();
    let kind = K::kind(&());
    let api: Api<K> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={own}"));
    let config = config.timeout(WATCH_SECONDS);
    let mut events = pin!(watch_of(api, config).backoff(Pauses::default()));
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = false,
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                listed = true;
                known.set(&name, object.read());
            }
            Ok(Event::InitDone) if listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                known.set(&name, Err(format!("there is no such {kind}")));
            }
            Err(error) => {
                warn!(%kind, name = full, "route objects: {error}");
                let new = !known.all().contains_key(&name);
                if new && is_refusal(&error) {
                    let words = format!("the agent may not read the {kind}: {}", K::PERMISSION);
                    known.set(&name, Err(words));
                }
            }
        }
    }
}

impl Source for Secret {
    const PERMISSION: &str = "name it in routeObjects.certificates of the chart's values";

    fn read(&self) -> Result<Arc<Certificate>, String> {
        let data = |key: &str| {
            let found = self.data.as_ref().and_then(|it| it.get(key));
            found.map(|it| it.0.as_slice()).ok_or_else(|| format!("no key {key}"))
        };
        let certificate = Certificate::read(data("tls.crt")?, data("tls.key")?);
        certificate.map(Arc::new).map_err(|error| error.to_string())
    }
}

impl Source for ConfigMap {
    const PERMISSION: &str = "agent.rbac of the chart's values creates the role";

    fn read(&self) -> Result<Arc<Certificate>, String> {
        let text = self.data.as_ref().and_then(|it| it.get("ca.crt")).ok_or("no key ca.crt")?;
        Certificate::authorities(text).map(Arc::new).map_err(|error| error.to_string())
    }
}

/// Unlike a broken connection, a rejection by the API server affects every agent.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403)
}
