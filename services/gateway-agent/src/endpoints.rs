//! Writes Envoy's endpoints from the EndpointSlices of a Service to a file.
//!
//! Only a complete list, and the changes after it, replace the file. While the API server is
//! unreachable, the last file stays, and Envoy's own health checks decide which of its endpoints
//! are used.

mod assignment;
mod file;
mod slice;
mod status;
mod store;
mod watch;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corelane_service::http::Answer;
use corelane_service::process::Termination;
use hyper::StatusCode;
use kube::Api;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info};

use self::file::File;
use self::slice::Ports;
use self::status::Status;
use self::watch::{ConfigError, Watch};
use crate::settings::Endpoints;

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

/// How long to wait for more changes, because one step of a rollout often makes several.
const GATHER: Duration = Duration::from_millis(5);

/// Minimum time between two files, each of which Envoy's main thread reads.
const BETWEEN: Duration = Duration::from_millis(50);

/// Pause after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the file up to date until SIGTERM or SIGINT.
pub(crate) async fn keep(settings: &Endpoints) -> Result<(), EndpointsError> {
    let mut termination = Termination::new().map_err(EndpointsError::Signals)?;
    let status = Arc::new(Status::default());
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.map_err(|error| EndpointsError::Listen(settings.listen, error))?;
    let file = File::open(settings.file.clone());
    if file.exists() {
        status.adopted();
        info!("endpoints: an existing file stays until all slices are read");
    }
    let told = Arc::clone(&status);
    tokio::spawn(corelane_service::http::serve(listener, move |path| answer(path, &told)));
    let watch = watch_of(settings, &status).await?;
    tokio::select! {
        () = watch.run() => {}
        () = write(settings, &watch, file) => {}
        () = termination.wait() => {}
    }
    info!("endpoints: stopped");
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
        ports: Ports { traffic: settings.port.clone(), health: settings.health_port.clone() },
        // Some may be listed twice, or not serve.
        limit: 4 * settings.limit as usize,
        status: Arc::clone(status),
        store: Mutex::new(None),
        changed: Notify::new(),
    })
}

/// Writes the file after changes, at most once for changes that arrive together.
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
            let (text, counts) =
                assignment::assignment(&settings.cluster, slices, settings.limit as usize);
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

/// The reply to a GET of this path.
fn answer(path: &str, status: &Status) -> Answer {
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" if status.has_file() => text(StatusCode::OK, "ok\n"),
        "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "no endpoints have been read yet\n"),
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4", status.metrics()),
        _ => text(StatusCode::NOT_FOUND, "not found\n"),
    }
}

fn text(status: StatusCode, words: &str) -> Answer {
    (status, "text/plain", words.to_owned())
}
