//! Runs the translation's test cases.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::attach::Route;
use super::certificates::{Chain, Source};
use super::listeners::Pods;
use super::objects::{Kind, Policy, RouteObject};
use super::prototypes::Prototypes;
use super::secrets::Found;
use super::translate::{Of, Status, World};
use crate::routes::{authority, certificate};

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// Builds an object from a case, whose other fields form the spec.
fn object(mut of: Value) -> (String, Value) {
    let mut take = |key: &str| of.as_object_mut().and_then(|it| it.remove(key));
    let kind = take("kind").and_then(|it| Some(it.as_str()?.to_owned())).expect("a kind");
    let second = take("age").unwrap_or(json!(0));
    let mut metadata =
        json!({"name": take("name"), "namespace": take("namespace").unwrap_or(json!("shop"))});
    metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:0{second}Z"));
    if kind.ends_with("Route") && of["parentRefs"].is_null() {
        of["parentRefs"] = json!([{"name": "edge", "namespace": "gateways"}]);
    }
    (kind, json!({"metadata": metadata, "spec": of}))
}

fn service(namespace: &str, name: &str) -> Value {
    let ports = json!([
        {"name": "http", "port": 80, "protocol": "TCP"},
        {"name": "tls", "port": 443, "appProtocol": "https"},
        {"name": "ws", "port": 85, "appProtocol": "kubernetes.io/ws"},
        {"name": "h2c", "port": 86, "appProtocol": "kubernetes.io/h2c"},
    ]);
    let spec = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports});
    json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

fn short(mut route: Value) -> Value {
    let mut found = json!({"name": route["name"], "match": route["match"]});
    let fields = route.as_object_mut().expect("a route");
    fields.retain(|key, _| !["name", "match"].contains(&key.as_str()));
    let mut more = Map::new();
    for (key, value) in fields
        .iter()
        .filter(|(key, _)| key.contains("_headers_to_") || *key == "typed_per_filter_config")
    {
        more.insert(key.clone(), value.clone());
    }
    let others = |key: &str| fields.get(key).map(|it| json!({key: it}));
    found["to"] = others("direct_response").or_else(|| others("redirect")).unwrap_or_else(|| {
        let action = fields["route"].as_object().expect("an action");
        let usual = ["weighted_clusters", "cluster_not_found_response_code"];
        more.extend(
            action
                .iter()
                .filter(|(key, _)| !usual.contains(&key.as_str()))
                .map(|(key, it)| (key.clone(), it.clone())),
        );
        let clusters = action["weighted_clusters"]["clusters"].as_array().expect("clusters");
        clusters
            .iter()
            .map(|it| (it["name"].as_str().unwrap_or_default().to_owned(), it["weight"].clone()))
            .collect()
    });
    if !more.is_empty() {
        found["more"] = Value::Object(more);
    }
    found
}

fn reasons(conditions: &Value) -> Map<String, Value> {
    let all = conditions.as_array().into_iter().flatten();
    let usual = |it: &&Value| (it["type"] == "Conflicted") == (it["status"] == "False");
    let bad = all.filter(|it| {
        !usual(it) && it["type"] != "Conflicted" || it["reason"] == "ListenersNotValid"
    });
    bad.map(|it| (it["type"].as_str().unwrap_or_default().to_owned(), it["reason"].clone()))
        .collect()
}

fn said(statuses: &[Status]) -> Value {
    let mut found = BTreeMap::new();
    for status in statuses {
        let name = match (&status.namespace, status.of) {
            (Some(namespace), Of::Policy | Of::Route(_)) => format!("{namespace}/{}", status.name),
            _ => status.name.clone(),
        };
        let lists = ["parents", "ancestors"].map(|key| status.wanted[key].as_array());
        let parents = lists.into_iter().flatten().flatten();
        let own = reasons(&status.wanted["conditions"]).into_iter();
        let all: Map<_, _> = own.chain(parents.flat_map(|it| reasons(&it["conditions"]))).collect();
        if !all.is_empty() {
            found.insert(name, Value::Object(all));
        }
        for listener in status.wanted["listeners"].as_array().into_iter().flatten() {
            let mut all = reasons(&listener["conditions"]);
            let routes = listener["attachedRoutes"].clone();
            let value = match (all.is_empty(), routes == 0) {
                (true, _) => routes,
                (false, none) => {
                    if !none || listener["name"] == "calls" {
                        all.insert("routes".to_owned(), routes);
                    }
                    Value::Object(all)
                }
            };
            found.insert(listener["name"].as_str().unwrap_or_default().to_owned(), value);
        }
    }
    json!(found)
}

fn chains(all: &[Chain]) -> Value {
    let name = |source: &Source| match source {
        Source::Mounted => "mounted".to_owned(),
        Source::Secret(name) => name.clone(),
    };
    let chain = |it: &Chain| {
        let names: Vec<_> = it.certificates.iter().map(name).collect();
        (it.hostname.clone().unwrap_or_else(|| "*".to_owned()), json!(names))
    };
    let found: Map<_, _> = all.iter().map(chain).collect();
    if found.is_empty() { Value::Null } else { json!(found) }
}

/// How the replicas of each cluster must authenticate.
fn proofs(clusters: &BTreeMap<String, Value>) -> Value {
    let proof = |(name, it): (&String, &Value)| {
        let tls = it.pointer("/transport_socket/typed_config")?;
        let context = &tls["common_tls_context"]["combined_validation_context"];
        let file = &context["validation_context_sds_secret_config"]["name"];
        let names = &context["default_validation_context"]["match_typed_subject_alt_names"];
        Some((name.clone(), json!({"sni": tls["sni"], "file": file, "names": names})))
    };
    let found: Map<_, _> = clusters.iter().filter_map(proof).collect();
    if found.is_empty() { Value::Null } else { json!(found) }
}

fn secrets(wanted: &BTreeSet<String>) -> Found {
    let found = |name: &String| match name.as_str() {
        "gateways/other" | "data/certificate" | "data/second" => Ok(certificate("a.io")),
        "ca/shop/roots" => Ok(authority("a.io")),
        "gateways/malformed" => Err("tls.crt has no certificate in PEM".to_owned()),
        _ => Err("there is no such Secret".to_owned()),
    };
    wanted.iter().map(|name| (name.clone(), found(name))).collect()
}

#[test]
fn cases() {
    let cases: Vec<Value> = serde_saphyr::from_str(include_str!("cases.yaml")).expect("cases");
    let every = json!([{"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}]);
    let authentication = json!({
        "default_validation_context": {"match_typed_subject_alt_names": []},
        "validation_context_sds_secret_config": {"name": "PROTOTYPE_AUTHORITIES"},
    });
    let context = json!({"combined_validation_context": authentication});
    let socket = json!({"sni": "PROTOTYPE_HOSTNAME", "common_tls_context": context});
    let tls = json!({"transport_socket": {"typed_config": socket}});
    let clusters = json!({"http1-tls": tls, "http2-tls": tls});
    let prototypes = json!({"routes": {"http": [{"route": {"cluster": "a"}}], "grpc": [{"route": {"cluster": "a"}}], "upgrade": []}, "clusters": clusters});
    let prototypes: Prototypes = read(prototypes);
    let class = read(
        json!({"metadata": {"name": "corelane"}, "spec": {"controllerName": super::status::CONTROLLER}}),
    );
    let shop = read(json!({"metadata": {"name": "shop", "labels": {"team": "shop"}}, "spec": {}}));
    let services: Vec<_> = [
        ("gateways", "edge"),
        ("shop", "web"),
        ("shop", "next"),
        ("data", "store"),
        ("data", "other"),
    ]
    .map(|(namespace, name)| read(service(namespace, name)))
    .into();
    for case in cases {
        let listeners = case.get("listeners").unwrap_or(&every);
        let spec = json!({"gatewayClassName": "corelane", "listeners": listeners});
        let gateway =
            read(json!({"metadata": {"name": "edge", "namespace": "gateways"}, "spec": spec}));
        let objects: Vec<_> =
            case["objects"].as_array().expect("objects").iter().cloned().map(object).collect();
        let of = |kind: &'static str| {
            objects.iter().filter(move |it| it.0 == kind).map(|it| it.1.clone())
        };
        let grants: Vec<_> = of("ReferenceGrant").map(read).collect();
        let policies: Vec<Policy> = of("BackendTLSPolicy").map(read).collect();
        let routes: Vec<(Kind, RouteObject)> = Kind::ALL
            .into_iter()
            .flat_map(|kind| of(kind.name()).map(move |it| (kind, read(it))))
            .collect();
        let tls =
            listeners.as_array().is_some_and(|all| all.iter().any(|it| it["protocol"] == "HTTPS"));
        let mut world = World {
            gateway: ("gateways", "edge"),
            service: "edge",
            pods: Pods {
                http: Some(80),
                https: tls.then_some(443),
                secret: Some("certificate".to_owned()),
            },
            classes: vec![&class],
            gateways: vec![&gateway],
            routes: routes.iter().map(|(kind, object)| Route { kind: *kind, object }).collect(),
            grants: grants.iter().collect(),
            policies: policies.iter().collect(),
            services: services.iter().collect(),
            namespaces: vec![&shop],
            secrets: Found::new(),
        };
        world.secrets = secrets(&world.wanted_secrets());
        let (found, statuses) = world.translate(&prototypes);
        let hosts: BTreeMap<_, Vec<_>> = found
            .hosts
            .into_iter()
            .map(|(host, routes)| (host, routes.into_iter().map(short).collect()))
            .collect();
        let name = &case["case"];
        let chains = chains(&found.chains);
        assert!(chains == case["chains"], "{name}: {chains:#}");
        let proofs = proofs(&found.clusters);
        assert!(proofs == case["tls"], "{name}: {proofs:#}");
        let (hosts, said) = (json!(hosts), said(&statuses));
        assert!(hosts == case["hosts"], "{name}: {hosts:#}");
        assert!(said == case["status"], "{name}: {said:#}");
    }
}
