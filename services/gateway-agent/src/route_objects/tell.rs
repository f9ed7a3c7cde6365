//! Writes the objects' status.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::objects::{GROUP, Kind};
use super::status::timed;
use super::store::resource;
use super::translate::{Of, Status};

/// Delay before retrying a failure if nothing else changes.
const AGAIN: Duration = Duration::from_secs(5);

/// Another pod was faster, or the object is gone. The watch will deliver the new state.
const OUTDATED: [u16; 2] = [404, 409];

/// Writes each status that differs from the object's current status. Never returns.
pub(crate) async fn tell(client: &Client, mut statuses: Receiver<Vec<Status>>) {
    loop {
        let all = statuses.borrow_and_update().clone();
        let mut failed = false;
        for status in &all {
            if statuses.has_changed().unwrap_or(false) {
                break;
            }
            failed |= !write(client, status).await;
        }
        if failed {
            let _ = timeout(AGAIN, statuses.changed()).await;
        } else if statuses.changed().await.is_err() {
            // The sender outlives this task.
            sleep(AGAIN).await;
        }
    }
}

/// Returns whether nothing is left to write.
async fn write(client: &Client, status: &Status) -> bool {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut wanted = status.wanted.clone();
    timed(&mut wanted, &status.known, &now);
    let fields = wanted.as_object().into_iter().flatten();
    if fields.into_iter().all(|(key, value)| status.known[key.as_str()] == *value) {
        return true;
    }
    let kind = match status.of {
        Of::Class => resource(GROUP, "v1", "GatewayClass", "gatewayclasses"),
        Of::Gateway => resource(GROUP, "v1", "Gateway", "gateways"),
        Of::Route(Kind::Http) => resource(GROUP, "v1", "HTTPRoute", "httproutes"),
        Of::Policy => resource(GROUP, "v1", "BackendTLSPolicy", "backendtlspolicies"),
        Of::Route(Kind::Grpc) => resource(GROUP, "v1", "GRPCRoute", "grpcroutes"),
    };
    let object = kind.kind.clone();
    let api: Api<DynamicObject> = match &status.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let patch: Value = json!({"metadata": {"resourceVersion": status.version}, "status": wanted});
    let (namespace, name) = (status.namespace.as_deref().unwrap_or_default(), &status.name);
    match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
        Ok(_) => info!(object, namespace, name, "route objects: status written"),
        Err(kube::Error::Api(reply)) if OUTDATED.contains(&reply.code) => {}
        Err(error) => {
            warn!(object, namespace, name, "route objects: the status cannot be written: {error}");
            return false;
        }
    }
    true
}
