//! `agent.deletion-cost`: decides which replica Kubernetes removes first.
//!
//! Node agents write the costs, not gateway agents. Each pod has exactly one node agent, and an
//! admission policy can restrict that agent's token to the pods of its node. Costs are coarse,
//! because each change needs a request. If costs are equal, Kubernetes chooses, and it prefers
//! nodes with several replicas and newer pods.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelane_service::http::exchange;
use http_body_util::Empty;
use hyper::{Request, StatusCode, header};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::refused_with;

/// Kubernetes removes the pod with the lowest value first; the default is 0.
const ANNOTATION: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods of charts/service. The admission policy in charts/node-tuning also uses these labels.
const REPLICAS: &str = "app.kubernetes.io/part-of=corelane,app.kubernetes.io/component=replica";

const PORT: &str = "admin";

const ANSWER: Duration = Duration::from_secs(2);

const CHEAPEST: i32 = -1;

pub(super) struct Costs {
    client: Client,
    here: ListParams,
    interval: Duration,
    replicas: BTreeMap<String, Replica>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Replica {
    written: Option<Instant>,
    was_silent: bool,
}

impl Costs {
    pub(super) fn new(client: &Client, node: &str, interval: Duration) -> Self {
        // Served from the API server's cache, because every node sends this request regularly.
        let here = ListParams::default().fields(&format!("spec.nodeName={node}")).labels(REPLICAS);
        let (client, here) = (client.clone(), here.match_any());
        Costs { client, here, interval, replicas: BTreeMap::new() }
    }

    /// Queries all replicas and writes the costs that changed. Returns the last error.
    pub(super) async fn write(&mut self) -> kube::Result<()> {
        let pods = Api::<Pod>::all(self.client.clone()).list(&self.here).await?.items;
        let mut asked = JoinSet::new();
        for pod in pods.into_iter().filter(counts) {
            if let Some(address) = address(&pod) {
                asked.spawn(async move { (pod, ask(address).await) });
            }
        }
        let mut before = std::mem::take(&mut self.replicas);
        let mut outcome = Ok(());
        for (pod, reply) in asked.join_all().await {
            let uid = pod.uid().unwrap_or_default();
            let mut replica = before.remove(&uid).unwrap_or_default();
            let current = cost_of(&pod);
            let wanted = wanted(current, reply, replica.was_silent);
            replica.was_silent = reply == Reply::Silent;
            if wanted != current && replica.written.is_none_or(|at| at.elapsed() >= self.interval) {
                replica.written = Some(Instant::now());
                outcome = outcome.and(self.annotate(&pod, wanted).await);
            }
            self.replicas.insert(uid, replica);
        }
        outcome
    }

    async fn annotate(&self, pod: &Pod, cost: i32) -> kube::Result<()> {
        let api: Api<Pod> =
            Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        // The UID ensures that a later pod with the same name is not changed.
        let annotations = json!({ANNOTATION: cost.to_string()});
        let patch = json!({"metadata": {"uid": pod.uid(), "annotations": annotations}});
        let patched = api
            .patch_metadata(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            // The pod is gone.
            Err(error) if [404, 409].iter().any(|&code| refused_with(&error, code)) => Ok(()),
            patched => patched.map(|_| ()),
        }
    }
}

/// Whether the pod's cost matters: Kubernetes removes unready pods first.
fn counts(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let mut ready = conditions.filter(|it| it.type_ == "Ready" && it.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

fn address(pod: &Pod) -> Option<SocketAddr> {
    let ports = pod.spec.iter().flat_map(|it| &it.containers).flat_map(|it| &it.ports);
    let port = ports.flatten().find(|it| it.name.as_deref() == Some(PORT))?;
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(address, port.container_port.try_into().ok()?))
}

fn cost_of(pod: &Pod) -> i32 {
    pod.annotations().get(ANNOTATION).and_then(|it| it.parse().ok()).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// The replica is serving with this load: 1 for each connection, another 1 for each upgraded
    /// connection or stream, and 1 for each request in flight.
    Serves(u64),
    Ends,
    Silent,
    /// Something other than a Corelane server responded.
    Other,
}

#[derive(Deserialize)]
struct Lanes {
    phase: String,
    lanes: Vec<Lane>,
}

#[derive(Deserialize)]
struct Lane {
    connections: u64,
    in_flight: u64,
    upgraded: u64,
}

async fn ask(address: SocketAddr) -> Reply {
    let request = Request::get("/lanes").header(header::HOST, address.to_string());
    let request = request.body(Empty::<Bytes>::new()).expect("the parts are valid");
    match timeout(ANSWER, exchange(address, request)).await {
        Ok(Ok(reply)) if reply.status() == StatusCode::OK => read(reply.body()),
        Ok(Ok(_)) => Reply::Other,
        Ok(Err(_)) | Err(_) => Reply::Silent,
    }
}

fn read(body: &[u8]) -> Reply {
    match serde_json::from_slice(body) {
        Ok(Lanes { phase, lanes }) if phase == "serving" => {
            Reply::Serves(lanes.iter().map(|it| it.connections + it.in_flight + it.upgraded).sum())
        }
        Ok(_) => Reply::Ends,
        Err(_) => Reply::Other,
    }
}

fn wanted(current: i32, reply: Reply, was_silent: bool) -> i32 {
    match reply {
        Reply::Serves(load) => step(load, current),
        Reply::Ends => CHEAPEST,
        // A busy node may delay one response.
        Reply::Silent if was_silent => CHEAPEST,
        Reply::Silent | Reply::Other => current,
    }
}

/// The number of the load's binary digits, which changes when the load doubles. The cost never
/// falls by just one, so that a load near a bound does not cause a series of writes.
fn step(load: u64, before: i32) -> i32 {
    let digits = (u64::BITS - load.leading_zeros()).cast_signed();
    if load > 0 && digits + 1 == before { before } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_rise_by_doublings_and_fall_late() {
        for (load, before, cost) in [
            (0, 0, 0),
            (1, 0, 1),
            (2, 0, 2),
            (3, 0, 2),
            (4, 2, 3),
            (1_000_000, 0, 20),
            (u64::MAX, 0, 64),
            // The load is at a bound.
            (1023, 10, 10),
            (1024, 10, 11),
            (1023, 11, 11),
            (512, 11, 11),
            (511, 11, 9),
            // The last connection remains.
            (1, 2, 2),
            (0, 1, 0),
            (0, 20, 0),
            // Another program set the cost, or the replica was silent.
            (5, -1, 3),
            (5, i32::MAX, 3),
        ] {
            assert_eq!(step(load, before), cost, "{load} from {before}");
        }
    }

    #[test]
    fn a_replica_that_serves_nobody_is_the_cheapest() {
        for (reply, was_silent, cost) in [
            (Reply::Serves(0), true, 0),
            (Reply::Ends, false, CHEAPEST),
            (Reply::Silent, false, 7),
            (Reply::Silent, true, CHEAPEST),
            (Reply::Other, true, 7),
        ] {
            assert_eq!(wanted(7, reply, was_silent), cost, "{reply:?}");
        }
    }

    #[test]
    fn replies_are_summed_over_lanes() {
        let lanes = r#""lanes": [{"lane": 0, "connections": 3, "in_flight": 2, "upgraded": 1},
            {"lane": 1, "connections": 10, "in_flight": 0, "upgraded": 0}]}"#;
        for (text, reply) in [
            (format!(r#"{{"phase": "serving", {lanes}"#), Reply::Serves(16)),
            (format!(r#"{{"phase": "settling", {lanes}"#), Reply::Ends),
            ("hello".to_owned(), Reply::Other),
        ] {
            assert_eq!(read(text.as_bytes()), reply, "{text}");
        }
    }

    #[test]
    fn ready_pods_with_an_admin_port_are_asked() {
        let pod = |ready: &str, port: &str, deleted: Option<&str>| {
            let ports = json!([{"name": "http", "containerPort": 8080}, {"name": port, "containerPort": 8081}]);
            let pod = json!({
                "metadata": {"name": "a", "deletionTimestamp": deleted},
                "spec": {"containers": [{"name": "beside"}, {"name": "main", "ports": ports}]},
                "status": {"podIP": "fd00::1", "conditions": [{"type": "Ready", "status": ready}]},
            });
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            counts(&pod).then(|| address(&pod)).flatten()
        };
        assert_eq!(pod("True", "admin", None), "[fd00::1]:8081".parse().ok());
        assert_eq!(pod("False", "admin", None), None);
        assert_eq!(pod("True", "metrics", None), None);
        assert_eq!(pod("True", "admin", Some("2026-01-01T00:00:00Z")), None);
    }
}
