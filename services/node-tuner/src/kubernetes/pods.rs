//! The pods of a node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{self as core, ContainerStatus};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::proof::{Container, Pod};

/// The kubelet's ID of a static pod (kubernetes.io, "Well-Known Labels, Annotations").
const OF_A_FILE: &str = "kubernetes.io/config.hash";

/// Lists a node's pods that are running or may run, and marks the pods that match the selector.
pub(crate) async fn of_node(client: &Client, node: &str, selector: &str) -> kube::Result<Vec<Pod>> {
    let api: Api<core::Pod> = Api::all(client.clone());
    // Served from the API server's cache, because every node sends this request regularly.
    let here = ListParams::default().fields(&format!("spec.nodeName={node}")).match_any();
    let all = api.list(&here).await?;
    let selected = api.list_metadata(&here.clone().labels(selector)).await?;
    let selected: BTreeSet<String> = selected.items.iter().filter_map(ResourceExt::uid).collect();
    Ok(all.items.iter().filter(|pod| !ended(pod)).map(|pod| of(pod, &selected)).collect())
}

fn ended(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn of(pod: &core::Pod, selected: &BTreeSet<String>) -> Pod {
    let uid = pod.uid().unwrap_or_default();
    let status = pod.status.as_ref();
    let guaranteed = status.and_then(|it| it.qos_class.as_deref()) == Some("Guaranteed");
    Pod {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        cgroup: pod.annotations().get(OF_A_FILE).unwrap_or(&uid).clone(),
        // A pod does not need a proof before it starts.
        selected: selected.contains(&uid)
            && status.and_then(|it| it.phase.as_deref()) == Some("Running"),
        uid,
        guaranteed,
        containers: containers(pod, guaranteed),
        sysctls: sysctls(pod),
    }
}

fn sysctls(pod: &core::Pod) -> Vec<(String, String)> {
    let context = pod.spec.as_ref().and_then(|it| it.security_context.as_ref());
    let sysctls = context.and_then(|it| it.sysctls.as_ref());
    sysctls.into_iter().flatten().map(|it| (it.name.clone(), it.value.clone())).collect()
}

fn containers(pod: &core::Pod, guaranteed: bool) -> Vec<Container> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let status = pod.status.clone().unwrap_or_default();
    let main = status.container_statuses.unwrap_or_default();
    let mut found: Vec<Container> = spec
        .containers
        .iter()
        .map(|it| Container {
            name: it.name.clone(),
            id: main.iter().find(|status| status.name == it.name).and_then(id),
            asked: if guaranteed { whole_cpus(it) } else { None },
            checked: true,
        })
        .collect();
    let beside = [status.init_container_statuses, status.ephemeral_container_statuses];
    found.extend(beside.iter().flatten().flatten().map(|it| Container {
        name: it.name.clone(),
        id: id(it),
        ..Container::default()
    }));
    found
}

/// ID of a running container, without the runtime's prefix.
fn id(status: &ContainerStatus) -> Option<String> {
    status.state.as_ref()?.running.as_ref()?;
    let id = status.container_id.as_deref()?;
    Some(id.rsplit_once("://").map_or(id, |(_, id)| id).to_owned())
}

/// Requested CPUs; `None` if the request is not a whole number.
fn whole_cpus(container: &core::Container) -> Option<u64> {
    // If a container has only a limit, the API server copies it to the request.
    let request = container.resources.as_ref()?.requests.as_ref()?.get("cpu")?;
    let whole = match request.0.strip_suffix('m') {
        Some(thousandths) => {
            let thousandths: u64 = thousandths.parse().ok()?;
            thousandths.is_multiple_of(1000).then_some(thousandths / 1000)?
        }
        None => request.0.parse().ok()?,
    };
    (whole > 0).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_cpus_count() {
        for (request, whole) in [
            ("1", Some(1)),
            ("12", Some(12)),
            ("2000m", Some(2)),
            ("1500m", None),
            ("500m", None),
            ("0", None),
            ("", None),
        ] {
            let container = serde_json::json!({
                "name": "main", "resources": {"requests": {"cpu": request}},
            });
            let container = serde_json::from_value(container).expect("a container");
            assert_eq!(whole_cpus(&container), whole, "{request}");
        }
    }
}
