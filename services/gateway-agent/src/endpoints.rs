//! Envoy's endpoints: from the EndpointSlices of a Service into a file.
//!
//! The file is only ever replaced by what a complete list, and the changes after it, say. As long as the
//! API server is away, the last one stays, and Envoy's own health checks judge the endpoints in it.

mod assignment;
mod file;
mod http;
mod slice;
mod status;
mod store;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Api;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info};

use self::file::File;
pub(crate) use self::slice::{Port, Ports};
use self::status::Status;
use self::watch::{ConfigError, Watch};

/// What to watch, and what to write where.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Empty for the pod's own, or that of the kubeconfig.
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) ports: Ports,
    /// Envoy's name of the cluster.
    pub(crate) cluster: String,
    pub(crate) file: PathBuf,
    /// Most endpoints in the file.
    pub(crate) limit: usize,
    pub(crate) listen: SocketAddr,
}

/// Why it did not even begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EndpointsError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

/// Waits so long for more changes, because one roll-out step often is several.
const GATHER: Duration = Duration::from_millis(5);

/// Least time between two files: each is read by Envoy's main thread.
const BETWEEN: Duration = Duration::from_millis(50);

/// Pause after a file that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the file up to date until SIGTERM or SIGINT.
pub(crate) async fn keep(settings: &Endpoints) -> Result<(), EndpointsError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(EndpointsError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(EndpointsError::Signals)?;
    let status = Arc::new(Status::default());
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.map_err(|error| EndpointsError::Listen(settings.listen, error))?;
    let file = File::open(settings.file.clone());
    if file.exists() {
        status.adopted();
        info!("endpoints: there is a file already, which stays until all slices are read");
    }
    let told = Arc::clone(&status);
    tokio::spawn(corelane_service::serve(listener, move |path| http::answer(path, &told)));
    let watch = watch_of(settings, &status).await?;
    tokio::select! {
        () = watch.run() => {}
        () = write(settings, &watch, file) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("endpoints: ended");
    Ok(())
}

async fn watch_of(settings: &Endpoints, status: &Arc<Status>) -> Result<Watch, ConfigError> {
    let client = watch::client(settings.kubeconfig.as_deref()).await?;
    let api = match settings.namespace.as_str() {
        "" => Api::default_namespaced(client),
        namespace => Api::namespaced(client, namespace),
    };
    Ok(Watch {
        api,
        service: settings.service.clone(),
        ports: settings.ports.clone(),
        // Some may be known twice, or not serve.
        limit: 4 * settings.limit,
        status: Arc::clone(status),
        store: Mutex::new(None),
        changed: Notify::new(),
    })
}

/// Writes the file after each change, at most one for all changes of a moment.
async fn write(settings: &Endpoints, watch: &Watch, mut file: File) {
    let mut earliest = Instant::now();
    loop {
        watch.changed.notified().await;
        sleep_until(earliest.max(Instant::now() + GATHER)).await;
        earliest = Instant::now() + BETWEEN;
        while let Err(error) = update(settings, watch, &mut file) {
            watch.status.write_failed();
            error!("endpoints: {} cannot be written: {error}", file.path().display());
            sleep_until(Instant::now() + AGAIN).await;
        }
    }
}

fn update(settings: &Endpoints, watch: &Watch, file: &mut File) -> io::Result<()> {
    let (text, counts, slices) = match watch.store().as_ref() {
        None => return Ok(()),
        Some(store) => {
            let slices = store.slices();
            let number = slices.len();
            let (text, counts) = assignment::assignment(&settings.cluster, slices, settings.limit);
            (text, counts, number)
        }
    };
    let written = file.replace(text)?;
    watch.status.current(counts, slices, written);
    if written {
        let assignment::Counts { healthy, draining, unready, left_out } = counts;
        info!(healthy, draining, unready, left_out, "endpoints: written");
    }
    Ok(())
}
