//! The Secrets with certificates that the Gateway's listeners may use, in the last state that the
//! API server sent.
//!
//! Each Secret is watched by its name, so that a Role can name it, and only while a listener refers
//! to it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::{self, Error, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_of};
use kube::{Api, Client};
use tokio::sync::Notify;
use tracing::warn;

use crate::endpoints::{Pauses, Task};
use crate::routes::Certificate;

/// Time after which the API server ends a watch, which shows that it is reachable.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// `NAMESPACE/NAME`, which is also the name in Envoy.
pub(crate) type Name = String;

/// The certificate of each Secret, or the reason why it has none.
pub(crate) type Found = BTreeMap<Name, Result<Arc<Certificate>, String>>;

/// The watches of Secrets.
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

    /// Watches exactly these Secrets.
    pub(crate) fn follow(&mut self, wanted: &BTreeSet<Name>) {
        self.watches.retain(|name, _| wanted.contains(name));
        self.known.all().retain(|name, _| wanted.contains(name));
        for name in wanted
            .iter()
            .filter(|name| !self.watches.contains_key(*name))
            .cloned()
            .collect::<Vec<_>>()
        {
            let work = watch(self.client.clone(), name.clone(), Arc::clone(&self.known));
            self.watches.insert(name, Task::start(work));
        }
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        self.known.changed.notified().await;
    }

    /// All watched Secrets, once each has been read.
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

/// Watches one Secret and never returns. While the API server cannot be read, the last state stays.
async fn watch(client: Client, name: Name, known: Arc<Known>) {
    let (namespace, own) = name.split_once('/').unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={own}"));
    let config = config.timeout(WATCH_SECONDS);
    let mut events = pin!(watch_of(api, config).backoff(Pauses::default()));
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = false,
            Ok(Event::Apply(secret) | Event::InitApply(secret)) => {
                listed = true;
                known.set(&name, read(&secret));
            }
            Ok(Event::InitDone) if listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => {
                known.set(&name, Err("there is no such Secret".to_owned()));
            }
            Err(error) => {
                warn!(secret = name, "route objects: {error}");
                let new = !known.all().contains_key(&name);
                if let (true, Some(words)) = (new, refusal(&error)) {
                    known.set(&name, Err(words));
                }
            }
        }
    }
}

fn read(secret: &Secret) -> Result<Arc<Certificate>, String> {
    let data = |key: &str| {
        let found = secret.data.as_ref().and_then(|it| it.get(key));
        found.map(|it| it.0.as_slice()).ok_or_else(|| format!("no key {key}"))
    };
    let certificate = Certificate::read(data("tls.crt")?, data("tls.key")?);
    certificate.map(Arc::new).map_err(|error| error.to_string())
}

/// The reason why the API server rejects the request. It would reject it from every agent, unlike a
/// broken connection.
fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403 => Some(
            "the agent may not read the Secret: name it in routeObjects.certificates of the chart's values"
                .to_owned(),
        ),
        _ => None,
    }
}
