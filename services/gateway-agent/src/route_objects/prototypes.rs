//! The chart's own Envoy routes and clusters. The agent copies them so that retries, timeouts,
//! limits and health checks have one source, the chart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};

use super::backends::Target;
use crate::routes;
use crate::settings::Service;

const PLACE: &str = "corelane-prototype";
/// Placeholders for the Service in the certificate names that replicas must present.
const NAMESPACE: &str = "PROTOTYPE_NAMESPACE";
const NAME: &str = "PROTOTYPE_SERVICE";
/// Placeholders for what a BackendTLSPolicy requires.
const HOSTNAME: &str = "PROTOTYPE_HOSTNAME";
const AUTHORITIES: &str = "PROTOTYPE_AUTHORITIES";
const FILE: &str = "PROTOTYPE_FILE";
const MATCHERS: &str = "/transport_socket/typed_config/common_tls_context/combined_validation_context/default_validation_context/match_typed_subject_alt_names";

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Prototypes {
    pub(crate) routes: Routes,
    pub(crate) clusters: BTreeMap<String, Value>,
    /// Folder of the files that the agent writes for Envoy.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
}

/// One route in the values becomes several Envoy routes, which differ in the requests that Envoy
/// may retry.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct Routes {
    pub(crate) http: Vec<Value>,
    pub(crate) upgrade: Vec<Value>,
    pub(crate) grpc: Vec<Value>,
}

impl Prototypes {
    /// A cluster named after the target. The name also determines the path of the cluster's
    /// endpoints file.
    pub(crate) fn cluster(&self, target: &Target) -> Value {
        let mut cluster = self.clusters.get(&target.prototype()).cloned().unwrap_or_default();
        let Service { namespace, name, port, .. } = &target.service;
        let namespace = namespace.as_deref().unwrap_or_default();
        for (place, text) in [(PLACE, target.cluster()), (NAMESPACE, namespace), (NAME, name)] {
            replace(&mut cluster, place, text);
        }
        if let Some(tls) = &target.tls {
            let file = routes::certificate_path(&self.folder, &tls.file);
            replace(&mut cluster, HOSTNAME, &tls.hostname);
            replace(&mut cluster, AUTHORITIES, &tls.file);
            replace(&mut cluster, FILE, &file.to_string_lossy());
            if let Some(matchers) = cluster.pointer_mut(MATCHERS) {
                matchers.clone_from(&tls.names);
            }
        }
        let service = format!("{namespace}/{name}:{port}");
        cluster["metadata"] = json!({"filter_metadata": {"corelane": {"service": service}}});
        cluster
    }
}

fn replace(value: &mut Value, place: &str, with: &str) {
    match value {
        Value::String(text) if text.contains(place) => *text = text.replace(place, with),
        Value::Array(items) => items.iter_mut().for_each(|it| replace(it, place, with)),
        Value::Object(fields) => fields.values_mut().for_each(|it| replace(it, place, with)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::backends::Protocol;
    use super::*;
    use crate::settings::Port;

    #[test]
    fn replicas_must_prove_the_identity_of_their_service() {
        let socket = json!({"sni": "PROTOTYPE_SERVICE.PROTOTYPE_NAMESPACE.svc",
            "exact": "spiffe://a/ns/PROTOTYPE_NAMESPACE/sa/PROTOTYPE_SERVICE"});
        let cluster = json!({"name": "corelane-prototype", "transport_socket": socket});
        let clusters = BTreeMap::from([("http1-admin".to_owned(), cluster)]);
        let service = Service {
            cluster: "shop_orders_80".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders".to_owned(),
            port: Port::Only,
            health_port: None,
        };
        let target = Target { service, protocol: Protocol::Http1, admin: true, tls: None };
        let found = Prototypes { clusters, ..Prototypes::default() }.cluster(&target);
        assert_eq!(found["name"], "shop_orders_80");
        let proved = json!({"sni": "orders.shop.svc", "exact": "spiffe://a/ns/shop/sa/orders"});
        assert_eq!(found["transport_socket"], proved);
    }
}
