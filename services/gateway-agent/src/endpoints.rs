//! Writes Envoy's endpoints from the EndpointSlices of Services to files, one for each cluster.
//!
//! Each namespace has one watch, which fails alone. Only a complete list, and the changes after it,
//! replace a file. While the API server is unreachable, the last files stay, and Envoy's own health
//! checks decide which of their endpoints are used.

mod assignment;
mod cluster;
mod file;
mod slice;
mod status;
mod store;
mod watch;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_service::http::Answer;
use corelane_service::process::Termination;
use futures_util::future::join_all;
use hyper::StatusCode;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::info;

use self::cluster::Cluster;
use self::file::File;
use self::watch::{ConfigError, Watch};
use crate::settings::{Endpoints, Service};

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointsError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

/// Pages of lists that are read at the same time, which bounds memory.
const PAGES: usize = 2;

/// Keeps the files up to date until SIGTERM or SIGINT.
pub(crate) async fn keep(settings: &Endpoints) -> Result<(), EndpointsError> {
    let mut termination = Termination::new().map_err(EndpointsError::Signals)?;
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.map_err(|error| EndpointsError::Listen(settings.listen, error))?;
    let client = watch::client(settings.kubeconfig.as_deref()).await?;
    let clusters = clusters(settings, client.default_namespace());
    let files: Vec<_> = clusters.iter().map(|cluster| file_of(settings, cluster)).collect();
    let told = clusters.clone();
    tokio::spawn(corelane_service::http::serve(listener, move |path| answer(path, &told)));
    let watches = watches(&client, &clusters);
    tokio::select! {
        _ = join_all(watches.iter().map(Watch::run)) => {}
        _ = join_all(clusters.iter().zip(files).map(|(cluster, file)| cluster.write(file))) => {}
        () = termination.wait() => {}
    }
    info!("endpoints: stopped");
    Ok(())
}

fn clusters(settings: &Endpoints, namespace: &str) -> Vec<Arc<Cluster>> {
    let cluster = |service: &Service| {
        let namespace = service.namespace.clone().or_else(|| Some(namespace.to_owned()));
        let service = Service { namespace, ..service.clone() };
        Arc::new(Cluster::new(service, settings.limit as usize))
    };
    settings.services.iter().map(cluster).collect()
}

/// The file of a cluster, which an earlier agent may have written.
fn file_of(settings: &Endpoints, cluster: &Cluster) -> File {
    let name = cluster.service.cluster.as_str();
    let file = File::open(settings.folder.join(format!("{name}.json")));
    if file.exists() {
        cluster.status.adopted();
        info!(cluster = name, "endpoints: an existing file stays until all slices are read");
    }
    file
}

/// One watch for each namespace.
fn watches(client: &Client, clusters: &[Arc<Cluster>]) -> Vec<Watch> {
    let mut namespaces: BTreeMap<&str, Vec<Arc<Cluster>>> = BTreeMap::new();
    for cluster in clusters {
        let namespace = cluster.service.namespace.as_deref().unwrap_or_default();
        namespaces.entry(namespace).or_default().push(Arc::clone(cluster));
    }
    let pages = Arc::new(Semaphore::new(PAGES));
    let watch = |(namespace, clusters): (&str, _)| Watch {
        api: Api::namespaced(client.clone(), namespace),
        namespace: namespace.to_owned(),
        clusters,
        pages: Arc::clone(&pages),
    };
    namespaces.into_iter().map(watch).collect()
}

/// The reply to a GET of this path.
fn answer(path: &str, clusters: &[Arc<Cluster>]) -> Answer {
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match missing(clusters) {
            words if words.is_empty() => text(StatusCode::OK, "ok\n".to_owned()),
            words => text(StatusCode::SERVICE_UNAVAILABLE, words),
        },
        "/metrics" => {
            let all = clusters.iter().map(|it| (it.service.cluster.as_str(), &it.status));
            (StatusCode::OK, "text/plain; version=0.0.4", status::metrics(all))
        }
        _ => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    }
}

/// A line for each cluster without a file.
fn missing(clusters: &[Arc<Cluster>]) -> String {
    let mut words = String::new();
    for cluster in clusters {
        if let Some(cause) = cluster.status.missing() {
            let _ = writeln!(words, "no endpoints of {}: {cause}", cluster.service);
        }
    }
    words
}

fn text(status: StatusCode, words: String) -> Answer {
    (status, "text/plain", words)
}
