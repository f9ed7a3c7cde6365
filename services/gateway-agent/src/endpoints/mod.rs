//! Writes Envoy's endpoints from the Services' EndpointSlices, one file per cluster.
//!
//! Each namespace has its own watch, so that one failure does not affect the other namespaces. Only
//! a complete list and the changes after it replace a file. While the API server is unreachable,
//! the last files stay, and Envoy's health checks decide which endpoints receive requests.

mod assignment;
mod cluster;
mod file;
mod slice;
mod status;
mod store;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tracing::{info, warn};

use self::cluster::Cluster;
pub(crate) use self::file::File;
use self::watch::Watch;
pub(crate) use self::watch::{Pauses, SILENCE};
use crate::settings::{Endpoints, Service};

/// Maximum concurrent list pages, which bounds memory.
const PAGES: usize = 2;

pub(crate) struct Fleet {
    client: Client,
    folder: PathBuf,
    limit: usize,
    /// The gateways' Service, whose file is always kept.
    gateways: Option<Service>,
    pages: Arc<Semaphore>,
    members: BTreeMap<String, Member>,
    watches: BTreeMap<String, Namespace>,
    known: Known,
}

#[derive(Debug)]
struct Member {
    cluster: Arc<Cluster>,
    _writer: Task,
}

#[derive(Debug)]
struct Namespace {
    clusters: Vec<Arc<Cluster>>,
    _watch: Task,
}

#[derive(Debug)]
pub(crate) struct Task(AbortHandle);

impl Task {
    pub(crate) fn start(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work).abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Fleet {
    pub(crate) fn new(client: Client, settings: &Endpoints) -> Self {
        Self {
            client,
            folder: settings.folder.clone(),
            limit: settings.limit as usize,
            gateways: settings.gateways.clone(),
            pages: Arc::new(Semaphore::new(PAGES)),
            members: BTreeMap::new(),
            watches: BTreeMap::new(),
            known: Known::default(),
        }
    }

    pub(crate) fn known(&self) -> Known {
        self.known.clone()
    }

    /// Maintains the files of exactly these Services and of the gateways, and deletes all other
    /// files. Unchanged files and watches continue.
    pub(crate) fn set(&mut self, services: &[Service]) {
        let services = services.iter().chain(&self.gateways);
        let services: BTreeMap<_, _> = services.map(|it| self.placed(it)).collect();
        let folder = &self.folder;
        self.members.retain(|name, member| match services.get(name) {
            None => {
                let path = folder.join(format!("{name}.json"));
                if let Err(error) = fs::remove_file(&path) {
                    warn!("endpoints: {} cannot be removed: {error}", path.display());
                }
                false
            }
            Some(service) => *service == member.cluster.service,
        });
        for (name, service) in services {
            if !self.members.contains_key(&name) {
                let member = self.start(service);
                self.members.insert(name, member);
            }
        }
        self.watch();
        let all = self.members.values().map(|it| Arc::clone(&it.cluster)).collect();
        *self.known.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = all;
    }

    pub(crate) async fn written(&self, clusters: impl Iterator<Item = &String>) {
        let members = clusters.filter_map(|name| self.members.get(name));
        join_all(members.map(|it| it.cluster.written())).await;
    }

    fn placed(&self, service: &Service) -> (String, Service) {
        let default = || self.client.default_namespace().to_owned();
        let namespace = Some(service.namespace.clone().unwrap_or_else(default));
        (service.cluster.clone(), Service { namespace, ..service.clone() })
    }

    fn start(&self, service: Service) -> Member {
        let cluster = Arc::new(Cluster::new(service, self.limit));
        let name = cluster.service.cluster.as_str();
        // An earlier agent may have written the file.
        let file = File::open(self.folder.join(format!("{name}.json")));
        if file.exists() {
            cluster.adopted();
            info!(cluster = name, "endpoints: an existing file stays until all slices are read");
        }
        let writer = Arc::clone(&cluster);
        Member { cluster, _writer: Task::start(async move { writer.write(file).await }) }
    }

    fn watch(&mut self) {
        let mut wanted: BTreeMap<String, Vec<Arc<Cluster>>> = BTreeMap::new();
        for Member { cluster, .. } in self.members.values() {
            let namespace = cluster.service.namespace.clone().unwrap_or_default();
            wanted.entry(namespace).or_default().push(Arc::clone(cluster));
        }
        self.watches.retain(|name, it| wanted.get(name).is_some_and(|new| same(new, &it.clusters)));
        for (namespace, clusters) in wanted {
            if self.watches.contains_key(&namespace) {
                continue;
            }
            let watch = Watch {
                api: Api::namespaced(self.client.clone(), &namespace),
                namespace: namespace.clone(),
                clusters: clusters.clone(),
                pages: Arc::clone(&self.pages),
            };
            let _watch = Task::start(async move { watch.run().await });
            self.watches.insert(namespace, Namespace { clusters, _watch });
        }
    }
}

fn same(one: &[Arc<Cluster>], other: &[Arc<Cluster>]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<Mutex<Vec<Arc<Cluster>>>>);

impl Known {
    pub(crate) fn missing(&self) -> String {
        let mut words = String::new();
        for cluster in self.all() {
            if let Some(cause) = cluster.status.missing() {
                let _ = writeln!(words, "no endpoints of {}: {cause}", cluster.service);
            }
        }
        words
    }

    pub(crate) fn metrics(&self) -> String {
        let all = self.all();
        status::metrics(all.iter().map(|it| (it.service.cluster.as_str(), &it.status)))
    }

    fn all(&self) -> Vec<Arc<Cluster>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
