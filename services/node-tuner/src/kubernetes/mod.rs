//! Requests to the API server: pods, events and the taint.

mod events;
mod pods;
mod taint;
mod uninstall;

pub(crate) use self::events::{Message, Reason};
pub(crate) use self::uninstall::uninstall;

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tracing::warn;

use self::events::{Events, Pace};
use crate::proof::Pod;
use crate::settings::Agent;

/// The agent's requests to the API server, for its own node.
pub(crate) struct Kubernetes {
    client: Client,
    nodes: Api<Node>,
    events: Events,
    pace: Pace,
    node: String,
    selector: String,
    taint: String,
}

impl Kubernetes {
    /// Loads the configuration of the client, without a request.
    pub(crate) async fn new(settings: &Agent) -> Result<Self, ClientError> {
        let client = client(settings.kubeconfig.as_deref()).await?;
        Ok(Kubernetes {
            nodes: Api::all(client.clone()),
            events: Events::new(&client, &settings.node),
            pace: Pace::default(),
            client,
            node: settings.node.clone(),
            selector: settings.pods.clone(),
            taint: settings.taint.clone(),
        })
    }

    /// All pods of the node.
    pub(crate) async fn pods(&self) -> kube::Result<Vec<Pod>> {
        pods::of_node(&self.client, &self.node, &self.selector).await
    }

    /// Writes events on the node. Events that cannot be written now are kept.
    pub(crate) async fn tell(&mut self, messages: Vec<Message>) -> kube::Result<()> {
        messages.into_iter().for_each(|it| self.pace.add(it));
        let now = Instant::now();
        if self.pace.due(now).is_none() {
            return Ok(());
        }
        let node = self.nodes.get(&self.node).await?;
        let mut told = Ok(());
        while let Some((message, times)) = self.pace.due(now) {
            match self.events.tell(&node, &message, times).await {
                // Dropped, because it would block all others permanently.
                Err(error) if refused_for_good(&error) => {
                    let words = words(&error);
                    warn!("an event was not created: {:?}: {words}", message.reason);
                    told = Err(error);
                }
                other => other?,
            }
            self.pace.done(message, now);
        }
        told
    }

    /// Adds the taint to a node that is not prepared, and removes it from one that is. Returns
    /// whether it changed. Without a taint key it does nothing.
    pub(crate) async fn taint(&self, prepared: bool) -> kube::Result<bool> {
        if self.taint.is_empty() {
            return Ok(false);
        }
        taint::set(&self.nodes, &self.node, &self.taint, !prepared).await
    }
}

/// Maximum time to connect to the API server.
const CONNECT: Duration = Duration::from_secs(5);

/// Maximum pause within a reply.
const SILENCE: Duration = Duration::from_secs(10);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("not in a pod with a service account's token, and no --agent.kubeconfig: {0}")]
    InCluster(#[from] kube::config::InClusterError),
    #[error("{0}")]
    File(#[from] kube::config::KubeconfigError),
    #[error("{0}")]
    Client(#[from] kube::Error),
}

/// A client for the API server of the pod's own cluster, or of a kubeconfig.
async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(file) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &options).await?
        }
        // The address comes from the environment, so DNS is not needed.
        None => Config::incluster_env()?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // The next pass retries.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The message of an error with its causes.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => {
            let mut words = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(deeper) = cause {
                let text = deeper.to_string();
                if !words.contains(&text) {
                    words += &format!(": {text}");
                }
                cause = deeper.source();
            }
            words
        }
    }
}

/// Whether the API server replied with this status.
fn refused_with(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether a retry would fail too: the error is neither a conflict nor too many requests.
fn refused_for_good(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && ![409, 429].contains(&status.code))
}
