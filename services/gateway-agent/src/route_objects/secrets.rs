//! Secrets with the certificates of the Gateway's listeners, as last sent by the API server.
//!
//! Each Secret is watched by name, so that a Role can name it, and only while a listener refers to
//! it.

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

/// The API server ends each watch after this time, which shows that it is reachable.
pub(crate) const WATCH_SECONDS: u32 = 60;

pub(crate) type Name = String;

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
            let work = watch(self.client.clone(), name.clone(), Arc::clone(&self.known));
            self.watches.insert(name, Task::start(work));
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

/// Watches one Secret and never returns. The last state stays while the API server is unreachable.
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

/// The reason for a rejection by the API server. Unlike a broken connection, a rejection affects
/// every agent.
fn refusal(error: &Error) -> Option<String> {
    match error {
        Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403 => Some(
            "the agent may not read the Secret: name it in routeObjects.certificates of the chart's values"
                .to_owned(),
        ),
        _ => None,
    }
}
