//! The chart's own Envoy routes and clusters. The agent copies them so that retries, timeouts,
//! limits and health checks have one source, the chart.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::backends::Target;
use crate::settings::Service;

const PLACE: &str = "corelane-prototype";

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Prototypes {
    pub(crate) routes: Routes,
    pub(crate) clusters: BTreeMap<String, Value>,
}

/// One route of the values becomes several Envoy routes, which differ in the requests that may be
/// retried.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Routes {
    pub(crate) http: Vec<Value>,
    pub(crate) upgrade: Vec<Value>,
    pub(crate) grpc: Vec<Value>,
}

impl Prototypes {
    /// A cluster named after the target. The name also determines the path of its endpoints.
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
