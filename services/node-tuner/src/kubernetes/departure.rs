//! Whether another agent follows an exiting agent on its node.
//!
//! A rollout, an eviction and the deletion of the release all send the same signal. Only the agent's
//! DaemonSet shows the difference, and the release's deletion may remove the agent's permissions
//! first.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm};
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep, timeout_at};

use super::{refused_with, words};

/// Maximum time for asking the API server, a third of a pod's grace period.
const ASKING: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Another agent follows, so the node stays tuned.
    Replaced,
    /// No other agent replaces this one, for the given reason.
    Last(&'static str),
    /// The node stays tuned, because a wrong guess would change a node under load in each rollout.
    Unknown(String),
}

/// The agent's DaemonSet.
pub(super) struct Owner {
    daemonsets: Api<DaemonSet>,
    nodes: Api<Node>,
    name: String,
    node: String,
    /// Whether the agent has read its DaemonSet. If it later loses the
    /// permission, the release has been deleted.
    was_readable: bool,
}

impl Owner {
    pub(super) fn new(client: &Client, (namespace, name): &(String, String), node: &str) -> Self {
        Owner {
            daemonsets: Api::namespaced(client.clone(), namespace),
            nodes: Api::all(client.clone()),
            name: name.clone(),
            node: node.to_owned(),
            was_readable: false,
        }
    }

    /// Reads the DaemonSet once, so that a missing permission is noticed before it matters.
    pub(super) async fn check(&mut self) -> kube::Result<()> {
        if !self.was_readable {
            self.daemonsets.get(&self.name).await?;
            self.was_readable = true;
        }
        Ok(())
    }

    /// Queries the API server until it answers or the time is over.
    pub(super) async fn departure(&self) -> Departure {
        let deadline = Instant::now() + ASKING;
        let mut last = "the API server does not answer".to_owned();
        loop {
            match timeout_at(deadline, self.ask()).await {
                Ok(Ok(departure)) => return departure,
                Ok(Err(error)) => last = words(&error),
                Err(_) => return Departure::Unknown(last),
            }
            if Instant::now() + PAUSE > deadline {
                return Departure::Unknown(last);
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask(&self) -> kube::Result<Departure> {
        let daemonset = match self.daemonsets.get(&self.name).await {
            Ok(found) => found,
            Err(error) => return self.refusal(error, "its DaemonSet is deleted"),
        };
        if daemonset.metadata.deletion_timestamp.is_some() {
            return Ok(Departure::Last("its DaemonSet is being deleted"));
        }
        match self.nodes.get(&self.node).await {
            Ok(node) if selects(&daemonset, &node) => Ok(Departure::Replaced),
            Ok(_) => Ok(Departure::Last("its DaemonSet no longer selects the node")),
            Err(error) => self.refusal(error, "the node has left the cluster"),
        }
    }

    fn refusal(&self, error: kube::Error, missing: &'static str) -> kube::Result<Departure> {
        let forbidden = [401, 403].iter().any(|&code| refused_with(&error, code));
        match (forbidden, self.was_readable) {
            _ if refused_with(&error, 404) => Ok(Departure::Last(missing)),
            (true, true) => Ok(Departure::Last("its permissions are deleted")),
            (true, false) => Ok(Departure::Unknown(words(&error))),
            (false, _) => Err(error),
        }
    }
}

/// Whether the DaemonSet's current template selects the node, as its controller decides.
fn selects(daemonset: &DaemonSet, node: &Node) -> bool {
    let Some(pod) = daemonset.spec.as_ref().and_then(|it| it.template.spec.as_ref()) else {
        return true;
    };
    let labels = node.labels();
    let affinity = pod.affinity.as_ref().and_then(|it| it.node_affinity.as_ref());
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    pod.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|it| it.node_selector_terms.iter().any(|term| matches(term, node)))
}

fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let (labels, name) = (node.labels(), node.name_any());
    let mut expressions = term.match_expressions.iter().flatten().peekable();
    let mut fields = term.match_fields.iter().flatten().peekable();
    // An empty term selects nothing. The only field is the name.
    (expressions.peek().is_some() || fields.peek().is_some())
        && expressions.all(|it| meets(it, labels.get(&it.key)))
        && fields.all(|it| meets(it, Some(&name)))
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&String>) -> bool {
    let wanted = requirement.values.as_deref().unwrap_or_default();
    let number = |text: Option<&String>| text.and_then(|it| it.parse::<i64>().ok());
    let numbers = || number(value).zip(number(wanted.first()));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(|it| wanted.contains(it)),
        "NotIn" => value.is_none_or(|it| !wanted.contains(it)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        // An operator that this program does not know must not restore a node.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selected(pod: &Value) -> bool {
        let node = json!({"metadata": {"name": "n1", "labels": {"pool": "web", "cores": "8"}}});
        let mut pod = pod.clone();
        pod["containers"] = json!([]);
        let daemonset = json!({"spec": {"selector": {}, "template": {"spec": pod}}});
        let daemonset = serde_json::from_value(daemonset).expect("a DaemonSet");
        selects(&daemonset, &serde_json::from_value(node).expect("a node"))
    }

    #[test]
    fn a_node_selector_needs_all_labels() {
        for (labels, wanted) in [
            (json!({}), true),
            (json!({"pool": "web"}), true),
            (json!({"pool": "web", "cores": "4"}), false),
            (json!({"other": "web"}), false),
        ] {
            assert_eq!(selected(&json!({"nodeSelector": labels})), wanted, "{labels}");
        }
    }

    #[test]
    fn an_affinity_needs_one_term() {
        let expressions = |list: &[(&str, &str, &[&str])]| {
            let list = list.iter().map(
                |(key, operator, values)| json!({"key": key, "operator": operator, "values": values}),
            );
            json!({"matchExpressions": list.collect::<Vec<_>>()})
        };
        let named = |name: &str| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": [name]});
            json!({"matchFields": [field]})
        };
        let unmet = expressions(&[("pool", "In", &["batch"])]);
        for (terms, wanted) in [
            (vec![expressions(&[("pool", "In", &["batch", "web"])])], true),
            (vec![expressions(&[("pool", "NotIn", &["web"])])], false),
            (vec![expressions(&[("none", "NotIn", &["web"])])], true),
            (vec![expressions(&[("pool", "Exists", &[]), ("none", "Exists", &[])])], false),
            (vec![expressions(&[("none", "DoesNotExist", &[])])], true),
            (vec![expressions(&[("cores", "Gt", &["4"]), ("cores", "Lt", &["9"])])], true),
            (vec![expressions(&[("cores", "Gt", &["8"])])], false),
            (vec![expressions(&[("pool", "Gt", &["1"])])], false),
            (vec![unmet.clone(), named("n1")], true),
            (vec![unmet.clone(), named("n2")], false),
            (vec![json!({})], false),
            (vec![expressions(&[("pool", "Unheard", &[])])], true),
        ] {
            let required = json!({"nodeSelectorTerms": terms});
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            let pod = json!({"affinity": {"nodeAffinity": affinity}});
            assert_eq!(selected(&pod), wanted, "{terms:?}");
        }
    }
}
