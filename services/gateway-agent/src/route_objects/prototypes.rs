//! Envoy's routes and clusters as the chart creates them for its own routes. The agent copies them,
//! so that all settings have one source, the chart: retries, timeouts, limits, health checks and
//! others.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::backends::Target;
use crate::settings::Service;

/// The placeholder for the name of a cluster.
const PLACE: &str = "corelane-prototype";

/// The prototypes in the ConfigMap of the routes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Prototypes {
    pub(crate) routes: Routes,
    /// The clusters, by protocol and kind of health check.
    pub(crate) clusters: BTreeMap<String, Value>,
}

/// The result of one route of the values: several Envoy routes, which differ in which requests may
/// be retried.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Routes {
    pub(crate) http: Vec<Value>,
    pub(crate) upgrade: Vec<Value>,
    pub(crate) grpc: Vec<Value>,
}

impl Prototypes {
    /// A cluster with the target's name, which is also in the path of its endpoints, and with its
    /// Service for the agent.
    pub(crate) fn cluster(&self, target: &Target) -> Value {
        let mut cluster = self.clusters.get(target.prototype()).cloned().unwrap_or_default();
        rename(&mut cluster, target.cluster());
        let Service { namespace, name, port, .. } = &target.service;
        let service = format!("{}/{name}:{port}", namespace.as_deref().unwrap_or_default());
        cluster["metadata"] = json!({"filter_metadata": {"corelane": {"service": service}}});
        cluster
    }
}

fn rename(value: &mut Value, name: &str) {
    match value {
        Value::String(text) if text.contains(PLACE) => *text = text.replace(PLACE, name),
        Value::Array(items) => items.iter_mut().for_each(|it| rename(it, name)),
        Value::Object(fields) => fields.values_mut().for_each(|it| rename(it, name)),
        _ => {}
    }
}
