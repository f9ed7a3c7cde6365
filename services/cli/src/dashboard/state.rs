//! Collects the data for the page from the admin ports, Envoy and Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use hyper::Method;
use serde_json::{Value, json};

use super::instance::{Instance, Replica, Topology, call, json};
use super::load::Load;

const WINDOW: &str = "15s";

/// `WINDOW` in seconds.
const SECONDS: u64 = 15;

/// Labels of a row.
const BY: &str = "service, route";

const BUCKETS: &str = "service, route, le";

const ALL: &str = "all requests";

/// Gateway counters start at 0 when the gateway starts; the page computes rates from two reads.
pub(super) async fn read(
    instance: &Instance,
    load: &Load,
    started: Instant,
) -> Result<Value, String> {
    let topology = instance.topology()?;
    let replicas = topology.replicas.iter();
    let replicas = replicas.map(|it| tokio::spawn(replica(it.clone(), topology.chassis(it))));
    let replicas: Vec<_> = replicas.collect();
    let stats = "/stats?format=json&filter=http.ingress.downstream_rq_";
    let (stats, clusters, routes) = tokio::join!(
        json(topology.envoy_admin_port, stats),
        json(topology.envoy_admin_port, "/clusters?format=json"),
        routes(&topology),
    );
    let hosts = hosts(clusters.unwrap_or_default());
    let mut found = Vec::new();
    for task in replicas {
        let mut each = task.await.map_err(|error| error.to_string())?;
        let host = each["port"].as_u64().and_then(|port| hosts.get(&port));
        each["gateway"] = host.cloned().unwrap_or_default();
        found.push(each);
    }
    Ok(json!({
        "at": started.elapsed().as_secs_f64(),
        "instance": instance.name(),
        "services": Vec::from_iter(topology.services.iter().map(|service| &service.name)),
        "gateway": gateway(&topology, stats.as_ref()),
        "prometheus": topology.prometheus_port,
        "replicas": found,
        "routes": routes,
        "load": load.view(),
    }))
}

fn gateway(topology: &Topology, stats: Option<&Value>) -> Value {
    let listed = stats.and_then(|stats| stats["stats"].as_array());
    let value = |name: &str| {
        let name = format!("http.ingress.downstream_rq_{name}");
        listed.into_iter().flatten().find(|each| each["name"] == name)?["value"].as_u64()
    };
    json!({
        "port": topology.gateway_port,
        "admin_port": topology.envoy_admin_port,
        "total": value("total"),
        "failed": value("5xx"),
        "active": value("active"),
    })
}

fn hosts(clusters: Value) -> BTreeMap<u64, Value> {
    let clusters = clusters["cluster_statuses"].as_array().cloned().unwrap_or_default();
    // No other cluster has the ports of replicas.
    let hosts = clusters.iter().filter_map(|cluster| cluster["host_statuses"].as_array());
    let seen = |host: &Value| {
        let port = host["address"]["socket_address"]["port_value"].as_u64()?;
        let stats = host["stats"].as_array()?;
        let total = stats.iter().find(|stat| stat["name"] == "rq_total");
        // Envoy writes 64-bit numbers as strings and omits zeros.
        let total = total.and_then(|stat| stat["value"].as_str()?.parse::<u64>().ok());
        // The other members show why the replica does not receive requests, for example
        // failed_active_health_check.
        let health = host["health_status"].as_object()?;
        let healthy = health.len() == 1 && health["eds_health_status"] == "HEALTHY";
        Some((port, json!({"healthy": healthy, "total": total.unwrap_or(0)})))
    };
    hosts.into_iter().flatten().filter_map(seen).collect()
}

async fn replica(replica: Replica, chassis: bool) -> Value {
    let port = replica.admin_port;
    let (lanes, faults) = match chassis {
        true => tokio::join!(json(port, "/lanes"), json(port, "/faults")),
        false => (None, None),
    };
    let own = lanes.unwrap_or_default();
    let lane = |lane: &Value| {
        let names = ["lane", "cpu", "pinned", "busy", "in_flight", "queued", "stalled"];
        Value::from_iter(names.map(|name| (name, lane[name].clone())))
    };
    let lanes = own["lanes"].as_array().into_iter().flatten().map(lane);
    json!({
        "name": replica.name,
        "service": replica.service,
        "cpu": replica.cpu,
        "port": replica.port,
        "admin_port": port,
        "phase": own["phase"],
        "uptime": own["uptime_seconds"],
        "lanes": Vec::from_iter(lanes),
        "faults": faults.and_then(|faults| faults["faults"].as_array().map(Vec::len)),
    })
}

/// Rates and error rates per second and quantiles in milliseconds, for the gateway and for each
/// route.
async fn routes(topology: &Topology) -> Vec<Value> {
    let prometheus = topology.prometheus_port;
    let several = topology.services.len() > 1;
    let gateway = |name: &str| {
        format!("envoy_http_downstream_rq_{name}{{envoy_http_conn_manager_prefix=\"ingress\"")
    };
    let all = [
        format!("sum(rate({}}}[{WINDOW}]))", gateway("xx")),
        format!("sum(rate({},envoy_response_code_class=\"5\"}}[{WINDOW}]))", gateway("xx")),
        quantile(0.5, "le", &format!("rate({}}}[{WINDOW}])", gateway("time_bucket"))),
        quantile(0.99, "le", &format!("rate({}}}[{WINDOW}])", gateway("time_bucket"))),
    ];
    let requests = "corelane_requests_total";
    let errors = format!("{requests}{{code=~\"5..\"}}");
    let duration = "corelane_request_duration_seconds_bucket";
    let each = [
        format!("sum by ({BY}) ({})", late(requests, "lane, route, method, code")),
        format!("sum by ({BY}) ({})", late(&errors, "lane, route, method, code")),
        format!("1e3 * {}", quantile(0.5, BUCKETS, &late(duration, "lane, route, le"))),
        format!("1e3 * {}", quantile(0.99, BUCKETS, &late(duration, "lane, route, le"))),
    ];
    // Queried in parallel, because each query may take its full time limit while Prometheus starts.
    let both = all.into_iter().zip(each).map(|(all, each)| {
        let ask = |text| tokio::spawn(query(prometheus, several, text));
        (ask(all), ask(each))
    });
    let both: Vec<_> = both.collect();
    let mut columns = Vec::new();
    for (all, each) in both {
        let (all, each) = (all.await.unwrap_or_default(), each.await.unwrap_or_default());
        let all = all.into_iter().map(|(_, value)| (ALL.to_owned(), value));
        columns.push(all.chain(each).collect::<BTreeMap<_, _>>());
    }
    let mut names: BTreeSet<_> = columns[0].keys().cloned().collect();
    names.remove(ALL);
    let row = |name: String| {
        let value = |column: usize| columns[column].get(&name);
        json!({
            "name": name, "rate": value(0), "errors": value(1).or(value(0).and(Some(&0.0))),
            "p50": value(2), "p99": value(3),
        })
    };
    std::iter::once(ALL.to_owned()).chain(names).map(row).collect()
}

fn quantile(share: f64, labels: &str, rates: &str) -> String {
    format!("histogram_quantile({share}, sum by ({labels}) ({rates}))")
}

/// Rate of series that first appear with an event and start at 0: "Late series" in docs/metrics.md.
fn late(series: &str, labels: &str) -> String {
    format!(
        "(max_over_time({series}[{WINDOW}]) unless {series} offset {WINDOW} \
         unless ignoring ({labels}) \
         (time() - max_over_time(process_start_time_seconds{{job=\"service\"}}[{WINDOW}]) > {SECONDS} \
         unless up{{job=\"service\"}} offset {WINDOW} == 1)) / {SECONDS} or rate({series}[{WINDOW}])"
    )
}

/// Values by route, or by service and route if there are several services.
async fn query(prometheus: u16, several: bool, query: String) -> Vec<(String, f64)> {
    let escaped = query.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    let path = format!("/api/v1/query?query={}", String::from_iter(escaped));
    let reply = json(prometheus, &path).await.unwrap_or_default();
    let value = |each: &Value| {
        let value: f64 = each["value"][1].as_str()?.parse().ok()?;
        let label = |name: &str| each["metric"][name].as_str().unwrap_or_default();
        let name = match several {
            true => format!("{} {}", label("service"), label("route")),
            false => label("route").to_owned(),
        };
        value.is_finite().then_some((name, value))
    };
    reply["data"]["result"].as_array().into_iter().flatten().filter_map(value).collect()
}

/// Turns a 100 ms delay on one replica on or off, for every route that any replica of its service has served.
pub(super) async fn delay(topology: &Topology, one: &Replica, on: bool) -> Result<(), String> {
    let (method, body) = match on {
        true => (Method::PUT, faults(&known_routes(topology, &one.service).await)),
        false => (Method::DELETE, String::new()),
    };
    let reply = call(one.admin_port, method, "/faults", body).await?;
    match reply.status().is_success() {
        true => Ok(()),
        false => Err(format!("{}: {}", one.name, String::from_utf8_lossy(reply.body()).trim_end())),
    }
}

fn faults(routes: &BTreeSet<String>) -> String {
    let fault = |route: &String| {
        json!({
            "route": route, "share": 1, "expires_in": "30s",
            "latency": {"fixed": "100ms", "jitter": "0s"},
        })
    };
    json!({"faults": Vec::from_iter(routes.iter().take(64).map(fault))}).to_string()
}

async fn known_routes(topology: &Topology, service: &str) -> BTreeSet<String> {
    let mut routes = BTreeSet::new();
    for replica in topology.replicas.iter().filter(|replica| replica.service == service) {
        let own = json(replica.admin_port, "/lanes").await.unwrap_or_default();
        let lanes = own["lanes"].as_array().into_iter().flatten();
        let rows = lanes.flat_map(|lane| lane["routes"].as_array().into_iter().flatten());
        let names = rows.filter_map(|row| row["route"].as_str());
        routes.extend(names.filter(|name| name.starts_with('/')).map(str::to_owned));
    }
    routes
}
