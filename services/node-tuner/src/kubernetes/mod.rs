//! API server requests: pods, events, the taint, deletion costs and the agent's DaemonSet.

mod costs;
mod departure;
mod events;
mod pods;

use std::time::{Duration, Instant};

pub(crate) use corelane_service::kubernetes::message as words;
use corelane_service::kubernetes::{self, ClientError};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use tracing::warn;

use self::costs::Costs;
use self::departure::Owner;
use self::events::{Events, Pace};
use crate::proof::Pod;
use crate::settings::Agent;

pub(crate) use self::departure::Departure;
pub(crate) use self::events::{Message, Reason};

pub(crate) struct Kubernetes {
    client: Client,
    nodes: Api<Node>,
    events: Events,
    pace: Pace,
    node: String,
    selector: String,
    taint: String,
    costs: Option<Costs>,
    /// Known only in apply mode, in which an agent may have to restore its node at the end.
    owner: Option<Owner>,
}

impl Kubernetes {
    /// Loads the client's configuration without sending a request.
    pub(crate) async fn new(settings: &Agent) -> Result<Self, ClientError> {
        let client = kubernetes::client(settings.kubeconfig.as_deref(), SILENCE).await?;
        Ok(Kubernetes {
            nodes: Api::all(client.clone()),
            events: Events::new(&client, &settings.node),
            pace: Pace::default(),
            costs: settings
                .deletion_cost
                .map(|interval| Costs::new(&client, &settings.node, interval)),
            owner: settings.owner().map(|daemonset| Owner::new(&client, daemonset, &settings.node)),
            client,
            node: settings.node.clone(),
            selector: settings.pods.clone(),
            taint: settings.taint.clone(),
        })
    }

    pub(crate) async fn pods(&self) -> kube::Result<Vec<Pod>> {
        pods::of_node(&self.client, &self.node, &self.selector).await
    }

    /// Writes node events and keeps the events that cannot be written now.
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
                // The event is dropped, because it would block all other events forever.
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

    /// Adds the taint to an unprepared node, and removes it from a prepared node. Returns whether
    /// it changed. Does nothing without a taint key.
    pub(crate) async fn taint(&self, prepared: bool) -> kube::Result<bool> {
        if self.taint.is_empty() {
            return Ok(false);
        }
        set_taint(&self.nodes, &self.node, &self.taint, !prepared).await
    }

    /// Does nothing unless deletion costs are enabled.
    pub(crate) async fn deletion_costs(&mut self) -> kube::Result<()> {
        match &mut self.costs {
            Some(costs) => costs.write().await,
            None => Ok(()),
        }
    }

    /// Fails as long as the agent cannot read its DaemonSet.
    pub(crate) async fn check_owner(&mut self) -> kube::Result<()> {
        match &mut self.owner {
            Some(owner) => owner.check().await,
            None => Ok(()),
        }
    }

    /// Whether another agent follows this one on the node.
    pub(crate) async fn departure(&self) -> Departure {
        match &self.owner {
            Some(owner) => owner.departure().await,
            None => Departure::Replaced,
        }
    }
}

const SILENCE: Duration = Duration::from_secs(10);

fn refused_with(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether a retry would fail too: the error is neither a conflict nor too many requests.
fn refused_for_good(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && ![409, 429].contains(&status.code))
}

const VALUE: &str = "unprepared";
const EFFECT: &str = "NoSchedule";

/// Maximum number of conflicts. They occur because the kubelet and controllers also write to the
/// node.
const TRIES: usize = 5;

/// Returns whether the taints changed.
pub(crate) async fn set_taint(
    api: &Api<Node>,
    node: &str,
    key: &str,
    on: bool,
) -> kube::Result<bool> {
    let mut tries = 1;
    loop {
        let found = api.get(node).await?;
        let taints = found.spec.as_ref().and_then(|it| it.taints.clone()).unwrap_or_default();
        let Some(wanted) = with(taints, key, on) else { return Ok(false) };
        // Includes the version that was read, so that concurrent changes are not lost (409).
        let patch = serde_json::json!({
            "metadata": {"resourceVersion": found.metadata.resource_version},
            "spec": {"taints": wanted},
        });
        match api.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => return Ok(true),
            Err(error) if refused_with(&error, 409) && tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// `None` if nothing changes.
fn with(mut taints: Vec<Taint>, key: &str, on: bool) -> Option<Vec<Taint>> {
    let ours = |it: &Taint| it.key == key && it.effect == EFFECT;
    match (taints.iter().any(ours), on) {
        (false, true) => {
            let (key, effect) = (key.to_owned(), EFFECT.to_owned());
            taints.push(Taint { key, effect, value: Some(VALUE.to_owned()), time_added: None });
        }
        // Matches any value: the program that registered the node may have set a different value.
        (true, false) => taints.retain(|it| !ours(it)),
        _ => return None,
    }
    Some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_so_yet_is_changed() {
        let taint = |key: &str, effect: &str, value: &str| Taint {
            key: key.to_owned(),
            effect: effect.to_owned(),
            value: Some(value.to_owned()),
            time_added: None,
        };
        let other = taint("other", EFFECT, "");
        let evicts = taint("ours", "NoExecute", VALUE);
        let ours = taint("ours", EFFECT, VALUE);
        let registered = taint("ours", EFFECT, "another");
        for (before, on, after) in [
            (vec![], true, Some(vec![&ours])),
            (vec![&other, &evicts], true, Some(vec![&other, &evicts, &ours])),
            (vec![&other, &ours], true, None),
            (vec![&registered], true, None),
            (vec![], false, None),
            (vec![&other, &evicts], false, None),
            (vec![&other, &ours, &evicts], false, Some(vec![&other, &evicts])),
            (vec![&registered], false, Some(vec![])),
        ] {
            let owned = |taints: Vec<&Taint>| taints.into_iter().cloned().collect::<Vec<_>>();
            assert_eq!(with(owned(before), "ours", on), after.map(owned));
        }
    }
}
