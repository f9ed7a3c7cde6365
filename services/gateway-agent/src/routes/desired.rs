//! The desired state of Envoy: clusters, routes, rate limits, and the Services behind the clusters.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::certificates::Certificates;
use crate::settings::{self, Service};

const CLUSTERS: &str = "clusters.json";
const ROUTES: &str = "routes.json";
const RATE_LIMITS: &str = "rate-limits.json";
/// Present only if routes of objects are enabled.
const PROTOTYPES: &str = "prototypes.json";
/// Present only if routes of objects are also served over TLS.
const LISTENERS: &str = "listeners.json";

const FILTER: &str = "corelane.route_rate_limits";

#[derive(Debug, thiserror::Error)]
pub(crate) enum DesiredError {
    #[error("no key {0}")]
    Missing(&'static str),
    #[error("{0}: {1}")]
    Json(&'static str, serde_json::Error),
    #[error("{0}: {1}")]
    Form(&'static str, String),
}

/// Desired state from one source of routes. States are merged before they are applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Desired {
    /// `envoy.config.cluster.v3.Cluster` by name. If the agent supplies the endpoints, the metadata
    /// names the Service (see [`service_of`]) and the file is CLUSTER.json.
    pub(crate) clusters: BTreeMap<String, Value>,
    /// `envoy.config.route.v3.RouteConfiguration` without its virtual hosts.
    pub(crate) routes: Map<String, Value>,
    /// `envoy.config.route.v3.VirtualHost` in any order, with distinct names and domains.
    pub(crate) virtual_hosts: Vec<Value>,
    pub(crate) rate_limits: Value,
    pub(crate) prototypes: Value,
    /// TLS listeners as `envoy.config.listener.v3.Listener`. `None` if Envoy's static configuration
    /// contains them.
    pub(crate) listeners: Option<Vec<Value>>,
    pub(crate) certificates: Certificates,
}

impl Desired {
    pub(crate) fn read(data: &BTreeMap<String, String>) -> Result<Self, DesiredError> {
        let key = |key| {
            let text = data.get(key).ok_or(DesiredError::Missing(key))?;
            serde_json::from_str(text).map_err(|error| DesiredError::Json(key, error))
        };
        let clusters = clusters(key(CLUSTERS)?).map_err(|it| DesiredError::Form(CLUSTERS, it))?;
        let Value::Object(mut routes) = key(ROUTES)? else {
            return Err(DesiredError::Form(ROUTES, "not an object".to_owned()));
        };
        let Some(Value::Array(virtual_hosts)) = routes.remove("virtual_hosts") else {
            return Err(DesiredError::Form(ROUTES, "no list virtual_hosts".to_owned()));
        };
        let rate_limits = key(RATE_LIMITS)?;
        let prototypes = data.get(PROTOTYPES).map_or(Ok(Value::Null), |_| key(PROTOTYPES))?;
        let listeners = match data.get(LISTENERS).map(|_| key(LISTENERS)).transpose()? {
            None => None,
            Some(Value::Array(all)) => Some(all),
            Some(_) => return Err(DesiredError::Form(LISTENERS, "not a list".to_owned())),
        };
        let certificates = Certificates::new();
        Ok(Self {
            clusters,
            routes,
            virtual_hosts,
            rate_limits,
            prototypes,
            listeners,
            certificates,
        })
    }

    pub(crate) fn routes_file(&self) -> Update {
        let mut routes = self.routes.clone();
        routes.insert("virtual_hosts".to_owned(), Value::Array(self.virtual_hosts.clone()));
        Update::of("envoy.config.route.v3.RouteConfiguration", [&Value::Object(routes)])
    }

    pub(crate) fn listeners_file(&self) -> Option<Update> {
        self.listeners.as_ref().map(|all| Update::of("envoy.config.listener.v3.Listener", all))
    }

    pub(crate) fn rate_limits_file(&self) -> Update {
        Update::of_filter(FILTER, &self.rate_limits)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) text: String,
    /// Equal resources have equal versions, even from different agents.
    pub(crate) version: String,
}

impl Update {
    pub(crate) fn of_clusters(clusters: &BTreeMap<String, Value>) -> Self {
        Self::of("envoy.config.cluster.v3.Cluster", clusters.values())
    }

    pub(crate) fn of_filter(name: &str, config: &Value) -> Self {
        let filter = json!({"name": name, "typed_config": config});
        Self::of("envoy.config.core.v3.TypedExtensionConfig", [&filter])
    }

    fn of<'a>(kind: &str, resources: impl IntoIterator<Item = &'a Value>) -> Self {
        // Built as text, because copies of the objects would take most of the agent's memory.
        let typed = |resource: &Value| {
            format!("{{\"@type\":\"type.googleapis.com/{kind}\",{}", &resource.to_string()[1..])
        };
        let resources = Vec::from_iter(resources.into_iter().map(typed)).join(",");
        let mut hasher = DefaultHasher::new();
        resources.hash(&mut hasher);
        let version = format!("{:016x}", hasher.finish());
        let text = format!("{{\"version_info\":\"{version}\",\"resources\":[{resources}]}}\n");
        Self { text, version }
    }
}

pub(crate) fn clusters_of_file(text: &str) -> Option<BTreeMap<String, Value>> {
    let mut file: Value = serde_json::from_str(text).ok()?;
    clusters(file.get_mut("resources")?.take()).ok()
}

fn clusters(list: Value) -> Result<BTreeMap<String, Value>, String> {
    let Value::Array(list) = list else { return Err("not a list".to_owned()) };
    let mut clusters = BTreeMap::new();
    for mut cluster in list {
        if let Value::Object(fields) = &mut cluster {
            fields.remove("@type");
        }
        let name = cluster["name"].as_str().ok_or("a cluster without a name")?.to_owned();
        service_of(&name, &cluster)?;
        if clusters.insert(name.clone(), cluster).is_some() {
            return Err(format!("two clusters have the name {name}"));
        }
    }
    Ok(clusters)
}

pub(crate) fn services(clusters: &BTreeMap<String, Value>) -> Vec<Service> {
    // Clusters with an unreadable Service were rejected earlier.
    clusters.iter().filter_map(|(name, it)| service_of(name, it).ok().flatten()).collect()
}

/// The cluster's Service, `[NAMESPACE/]NAME:PORT[:HEALTH-PORT]`, from `service` in the `corelane`
/// filter metadata.
fn service_of(name: &str, cluster: &Value) -> Result<Option<Service>, String> {
    let service = &cluster["metadata"]["filter_metadata"]["corelane"]["service"];
    match service {
        Value::Null => Ok(None),
        Value::String(service) => settings::service(&format!("{name}={service}"))
            .map(Some)
            .map_err(|error| format!("service of the cluster {name}: {error}")),
        _ => Err(format!("service of the cluster {name}: not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(clusters: &Value, routes: &str) -> BTreeMap<String, String> {
        [(CLUSTERS, clusters.to_string()), (ROUTES, routes.to_owned()), (RATE_LIMITS, "{}".into())]
            .map(|(key, text)| (key.to_owned(), text))
            .into()
    }

    fn cluster(name: &str, service: &str) -> Value {
        json!({"name": name, "metadata": {"filter_metadata": {"corelane": {"service": service}}}})
    }

    #[test]
    fn clusters_name_their_services_and_survive_a_file() {
        let list = json!([cluster("b", "shop/web:http:81"), {"name": "a"}]);
        let desired = Desired::read(&data(&list, r#"{"virtual_hosts": []}"#)).expect("readable");
        let found = services(&desired.clusters);
        assert_eq!(found, [settings::service("b=shop/web:http:81").expect("a service")]);
        let file = Update::of_clusters(&desired.clusters);
        assert_eq!(clusters_of_file(&file.text), Some(desired.clusters));
    }

    #[test]
    fn a_version_is_that_of_the_resources() {
        let read =
            |list| Desired::read(&data(&list, r#"{"virtual_hosts": []}"#)).expect("readable");
        let one = read(json!([cluster("a", "web:http")]));
        let two = read(json!([cluster("a", "web:http"), cluster("b", "web:80")]));
        let version = |it: &Desired| Update::of_clusters(&it.clusters).version;
        assert_eq!(version(&one), version(&one.clone()));
        assert_ne!(version(&one), version(&two));
        assert_eq!(one.routes_file(), two.routes_file());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = json!([cluster("a", "web:http")]);
        let twice = json!([cluster("a", "web:http"), cluster("a", "web:http")]);
        for (list, routes, words) in [
            (&good, "{", "routes.json: EOF"),
            (&good, "[]", "routes.json: not an object"),
            (&good, "{}", "routes.json: no list virtual_hosts"),
            (&json!({}), "{}", "clusters.json: not a list"),
            (&json!([{}]), "{}", "clusters.json: a cluster without a name"),
            (&twice, "{}", "clusters.json: two clusters have the name a"),
            (
                &json!([cluster("a", "web")]),
                "{}",
                "clusters.json: service of the cluster a: no PORT",
            ),
        ] {
            let error = Desired::read(&data(list, routes)).expect_err(words).to_string();
            assert!(error.starts_with(words), "{error}");
        }
        let error = Desired::read(&BTreeMap::new()).expect_err("nothing").to_string();
        assert_eq!(error, "no key clusters.json");
    }
}
