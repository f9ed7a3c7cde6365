//! `node-tuner uninstall`: restores every node before the agents are deleted.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use corelane_service::kubernetes::{self, ClientError};
use corelane_service::process;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{SILENCE, refused_with, words};
use crate::settings::{NAME, Settings, Uninstall};

/// The agent's container, and the variable that overrides its file.
const CONTAINER: &str = "node-tuner";
const MODE: &str = "NODE_TUNER_AGENT_MODE";

/// The name of this field manager at the API server.
const MANAGER: &str = "node-tuner-uninstall";

const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
enum UninstallError {
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("API server: {}", words(.0))]
    Api(#[from] kube::Error),
    #[error(
        "there is no DaemonSet {0}: where its agents ran in mode apply, nodes are still tuned; \
         `helm uninstall --no-hooks` deletes the release anyway"
    )]
    None(String),
    #[error(
        "not restored in time: {0}. Run `helm uninstall` again, or keep the release by \
         `helm upgrade --force-conflicts`, which takes the mode back"
    )]
    Late(String),
    #[error("{0}")]
    Runtime(#[from] io::Error),
}

/// Sets the DaemonSet to restore mode and waits until every node is restored.
pub(crate) fn uninstall(settings: &Settings, uninstall: &Uninstall) -> ExitCode {
    let outcome = process::block_on(run(settings, uninstall), false);
    match outcome.map_err(UninstallError::from).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process::report(NAME, &format!("uninstall: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings, uninstall: &Uninstall) -> Result<(), UninstallError> {
    let deadline = Instant::now() + uninstall.timeout;
    let client = kubernetes::client(settings.agent.kubeconfig.as_deref(), SILENCE).await?;
    let api: Api<DaemonSet> = Api::namespaced(client.clone(), &uninstall.namespace);
    let name = &uninstall.daemonset;
    let ours = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patched = api.patch(name, &ours, &Patch::Strategic(patch())).await;
    let mut daemonset = patched.map_err(|error| match refused_with(&error, 404) {
        true => UninstallError::None(format!("{}/{name}", uninstall.namespace)),
        false => error.into(),
    })?;
    say(&format!("{}/{name} is set to mode restore", uninstall.namespace));
    let generation = daemonset.metadata.generation;
    let mut said = String::new();
    loop {
        let progress = Progress::of(&daemonset, generation);
        if progress.to_string() != said {
            said = progress.to_string();
            say(&said);
        }
        if progress.done() {
            return Ok(());
        }
        if Instant::now() + LOOK > deadline {
            let pods = Api::namespaced(client, &uninstall.namespace);
            return Err(UninstallError::Late(late(&pods, &daemonset).await));
        }
        sleep(LOOK).await;
        match api.get(name).await {
            Ok(found) => daemonset = found,
            Err(error) => say(&format!("API server: {}", words(&error))),
        }
    }
}

/// Updates all nodes at once, because a rollout would take longer.
fn patch() -> serde_json::Value {
    let container = json!({"name": CONTAINER, "env": [{"name": MODE, "value": "restore"}]});
    let at_once = json!({"maxUnavailable": "100%", "maxSurge": 0});
    json!({"spec": {
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": at_once},
        "template": {"spec": {"containers": [container]}},
    }})
}

#[derive(Debug)]
struct Progress {
    current: bool,
    nodes: i32,
    restored: i32,
}

impl Progress {
    fn of(daemonset: &DaemonSet, generation: Option<i64>) -> Self {
        let status = daemonset.status.clone().unwrap_or_default();
        let updated = status.updated_number_scheduled.unwrap_or(0);
        Progress {
            current: status.observed_generation >= generation,
            nodes: status.desired_number_scheduled,
            // In restore mode, an agent becomes ready when the journal is gone.
            restored: updated.min(status.number_ready),
        }
    }

    fn done(&self) -> bool {
        self.current && self.restored == self.nodes
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.current {
            true => write!(out, "{} of {} nodes restored", self.restored, self.nodes),
            false => write!(out, "waiting for the DaemonSet's controller"),
        }
    }
}

/// Lists the nodes that are not restored, for a message.
async fn late(api: &Api<Pod>, daemonset: &DaemonSet) -> String {
    let progress = Progress::of(daemonset, None);
    let counted = format!("{} of {} nodes are", progress.restored, progress.nodes);
    let selector = daemonset.spec.as_ref().and_then(|it| it.selector.match_labels.as_ref());
    let labels = selector.into_iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let labels = labels.collect::<Vec<_>>().join(",");
    match api.list(&ListParams::default().labels(&labels)).await {
        Ok(pods) => {
            let late = pods.items.iter().filter(|pod| !restored(pod)).map(node);
            let mut late: Vec<_> = late.collect();
            late.sort();
            late.dedup();
            format!("{counted}; not: {}", late.join(", "))
        }
        Err(error) => format!("{counted}; their names are unknown: {}", words(&error)),
    }
}

fn node(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|it| it.node_name.clone());
    node.unwrap_or_else(|| format!("that of pod {}, which is not scheduled", pod.name_any()))
}

fn restored(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|it| &it.containers);
    let mut variables = containers.flat_map(|it| it.env.iter().flatten());
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    variables.any(|it| it.name == MODE && it.value.as_deref() == Some("restore"))
        && conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

fn say(message: &str) {
    process::print(&format!("{message}\n"));
}
