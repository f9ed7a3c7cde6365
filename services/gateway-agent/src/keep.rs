//! The agent in Envoy's pod: keeps the files up to date, and serves probes and scrapes.

use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::{io, mem};

use corelane_service::http::Answer;
use corelane_service::kubernetes::{self, ClientError};
use corelane_service::process::Termination;
use futures_util::FutureExt;
use futures_util::future::OptionFuture;
use hyper::StatusCode;
use tokio::net::TcpListener;
use tracing::info;

use crate::credentials::Credentials;
use crate::endpoints::{Fleet, Known, SILENCE};
use crate::route_objects::RouteObjects;
use crate::routes::{Applier, Source, Status};
use crate::settings::Endpoints;

/// Reason why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    #[error("{0}")]
    Config(#[from] ClientError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("cannot read {0}: {1}")]
    Credentials(PathBuf, String),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

pub(crate) async fn keep(settings: &Endpoints) -> Result<(), KeepError> {
    let mut termination = Termination::new().map_err(KeepError::Signals)?;
    let listener = TcpListener::bind(settings.listen).await;
    let listener = listener.map_err(|error| KeepError::Listen(settings.listen, error))?;
    let client = kubernetes::client(settings.kubeconfig.as_deref(), SILENCE).await?;
    let open = |path: &PathBuf| {
        let opened = Credentials::open(path, &settings.folder);
        opened.map_err(|error| KeepError::Credentials(path.clone(), error))
    };
    let credentials = settings.credentials.as_ref().map(open).transpose()?.map(Arc::new);
    if let Some(credentials) = credentials.clone() {
        tokio::spawn(async move { credentials.run().await });
    }
    let mut fleet = Fleet::new(client.clone(), settings);
    let status = settings.routes.as_ref().map(|_| Arc::new(Status::default()));
    let (known, told) = (fleet.known(), status.clone());
    let replies = move |path: &str| answer(path, &known, told.as_deref(), credentials.as_deref());
    match (&settings.routes, status) {
        (Some(name), Some(status)) => {
            let source = Source::new(&client, name, Arc::clone(&status));
            let objects = RouteObjects::new(&client, settings, Arc::clone(&status));
            let applier = Applier::new(settings, fleet, status);
            tokio::spawn(corelane_service::http::serve(listener, replies));
            let (values, mut wanted) = tokio::sync::watch::channel(None);
            let more = objects.map(|objects| {
                let (newest, with_objects) = tokio::sync::watch::channel(None);
                objects.run(mem::replace(&mut wanted, with_objects), newest)
            });
            tokio::select! {
                () = source.run(values) => {}
                () = OptionFuture::from(more).then(|_| pending()) => {}
                () = applier.run(wanted) => {}
                () = termination.wait() => {}
            }
        }
        _ => {
            fleet.set(&settings.services);
            tokio::spawn(corelane_service::http::serve(listener, replies));
            termination.wait().await;
        }
    }
    info!("endpoints: stopped");
    Ok(())
}

fn answer(
    path: &str,
    known: &Known,
    routes: Option<&Status>,
    credentials: Option<&Credentials>,
) -> Answer {
    match path {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match missing(known, routes, credentials) {
            words if words.is_empty() => text(StatusCode::OK, "ok\n".to_owned()),
            words => text(StatusCode::SERVICE_UNAVAILABLE, words),
        },
        "/routesz" if routes.is_none_or(Status::taken) => text(StatusCode::OK, "ok\n".to_owned()),
        "/routesz" => {
            text(StatusCode::SERVICE_UNAVAILABLE, "Envoy has not taken any routes\n".to_owned())
        }
        "/metrics" => {
            let routes = routes.map(Status::metrics).unwrap_or_default();
            let credentials = credentials.map(Credentials::metrics).unwrap_or_default();
            let metrics = known.metrics() + &routes + &credentials;
            (StatusCode::OK, "text/plain; version=0.0.4", metrics)
        }
        _ => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
    }
}

/// Lists the files that Envoy still needs to start, one per line.
fn missing(known: &Known, routes: Option<&Status>, credentials: Option<&Credentials>) -> String {
    let cause = routes.and_then(Status::missing);
    let routes = cause.map(|cause| format!("no routes: {cause}\n")).unwrap_or_default();
    routes + &known.missing() + &credentials.map(Credentials::missing).unwrap_or_default()
}

fn text(status: StatusCode, words: String) -> Answer {
    (status, "text/plain", words)
}
