//! Requests to the API server: pods, events and the taint.

mod client;
mod events;
mod pace;
mod pods;
mod taint;
mod uninstall;

pub(crate) use self::client::{ClientError, words};
pub(crate) use self::events::{Message, Reason};
pub(crate) use self::uninstall::uninstall;

use std::time::Instant;

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tracing::warn;

use self::events::Events;
use self::pace::Pace;
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
        let client = client::client(settings.kubeconfig.as_deref()).await?;
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
                Err(error) if client::refused_for_good(&error) => {
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
