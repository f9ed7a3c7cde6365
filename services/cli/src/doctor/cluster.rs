//! Cluster checks through the API server.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use corelane_service::kubernetes::{self, message};
use hyper::Request;
use kube::{Client, Config};
use serde_json::Value;

use super::machine::{KERNEL, NEW_KERNEL};
use super::{Check, Subject, at_least};

const SILENCE: Duration = Duration::from_secs(10);

/// Maximum number of kubelets to read. In a large cluster, all kubelets are configured alike.
const KUBELETS: usize = 20;

const OURS: &str = "labelSelector=app.kubernetes.io/part-of%3Dcorelane";

const GROUPS: [(&str, &str); 2] = [
    ("gateway.networking.k8s.io", "route objects"),
    ("monitoring.coreos.com", "monitoring with the Prometheus operator"),
];

pub(super) async fn checks(kubeconfig: Option<&Path>, pre: bool) -> Vec<Check> {
    let client = match kubernetes::client(kubeconfig, SILENCE).await {
        Ok(client) => client,
        Err(error) => return vec![unreachable(&error.to_string())],
    };
    let version = match get(&client, "/version").await {
        Ok(version) => version,
        Err(error) => return vec![unreachable(&error)],
    };
    let mut checks = vec![kubernetes_version(&version)];
    match items(&client, "/api/v1/nodes").await {
        Ok(nodes) => {
            checks.push(kernels(&nodes));
            let policies = policies(&client, &nodes).await;
            let unknown = |error: String| unread(Subject::CpuManager, &error);
            checks.push(policies.map_or_else(unknown, |policies| cpu_manager(&policies)));
        }
        Err(error) => checks.push(unread(Subject::Kernel, &error)),
    }
    if pre {
        checks.push(match get(&client, "/apis").await {
            Ok(groups) => custom_resources(&groups, &[]),
            Err(error) => unread(Subject::CustomResources, &error),
        });
        return checks;
    }
    checks.extend(
        installed(&client).await.unwrap_or_else(|error| vec![unread(Subject::Pods, &error)]),
    );
    checks
}

async fn installed(client: &Client) -> Result<Vec<Check>, String> {
    let mut workloads = items(client, &format!("/apis/apps/v1/deployments?{OURS}")).await?;
    workloads.extend(items(client, &format!("/apis/apps/v1/daemonsets?{OURS}")).await?);
    if workloads.is_empty() {
        let fix = "helm install corelane charts/corelane --namespace corelane --create-namespace";
        return Ok(vec![Subject::Pods.failed("Corelane is not installed", fix)]);
    }
    let pods = items(client, &format!("/api/v1/pods?{OURS}")).await?;
    let groups = get(client, "/apis").await?;
    Ok(vec![
        custom_resources(&groups, &workloads),
        pulled(&pods),
        ready(&workloads),
        node_tuning(&workloads),
        versions(&workloads, env!("CARGO_PKG_VERSION")),
    ])
}

pub(super) async fn registry(host: &str) -> Check {
    let failed = |error: String| {
        let fix = "check the name, DNS and the proxy of this machine; nodes need the same access";
        Subject::Registry.failed(format!("https://{host}/v2/ does not reply: {error}"), fix)
    };
    let Ok(url) = format!("https://{host}").parse() else {
        return Subject::Registry
            .failed(format!("{host:?} is not a host"), "name it as HOST[:PORT]");
    };
    let mut config = Config::new(url);
    (config.connect_timeout, config.read_timeout) = (Some(SILENCE), Some(SILENCE));
    config.default_retry = false;
    let client = match Client::try_from(config) {
        Ok(client) => client,
        Err(error) => return failed(message(&error)),
    };
    let Ok(request) = Request::get("/v2/").body(Vec::new()) else {
        return failed("no request".to_owned());
    };
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) if status.code >= 500 => failed(status.to_string()),
        Ok(_) | Err(kube::Error::Api(_)) => Subject::Registry.passed(format!("{host} replies")),
        Err(error) => failed(message(&error)),
    }
}

async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let request = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    client.request(request).await.map_err(|error| message(&error))
}

async fn items(client: &Client, path: &str) -> Result<Vec<Value>, String> {
    let mut list = get(client, path).await?;
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Err(format!("{path}: the reply is no list")),
    }
}

async fn policies(client: &Client, nodes: &[Value]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for node in nodes.iter().take(KUBELETS) {
        let name = text(node, "/metadata/name");
        let config = get(client, &format!("/api/v1/nodes/{name}/proxy/configz")).await;
        let config = config.map_err(|error| format!("{name}: {error}"))?;
        found.push(text(&config, "/kubeletconfig/cpuManagerPolicy").to_owned());
    }
    Ok(found)
}

fn unreachable(error: &str) -> Check {
    let fix = "check --kubeconfig with `kubectl version`";
    Subject::Kubernetes.failed(format!("the API server does not reply: {error}"), fix)
}

fn unread(subject: Subject, error: &str) -> Check {
    subject.warning(format!("not known: {error}"), "run it as a user who may read this")
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["labels"][name].as_str().unwrap_or_default()
}

fn name(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

fn kubernetes_version(version: &Value) -> Check {
    let found = text(version, "/gitVersion");
    match at_least(found, 1, 30) {
        true => Subject::Kubernetes.passed(found),
        false => {
            Subject::Kubernetes.failed(found, "upgrade the cluster to Kubernetes 1.30 or newer")
        }
    }
}

fn kernels(nodes: &[Value]) -> Check {
    let kernel = |node: &Value| text(node, "/status/nodeInfo/kernelVersion").to_owned();
    let old = nodes.iter().filter(|node| !at_least(&kernel(node), KERNEL.0, KERNEL.1));
    let old: Vec<_> =
        old.map(|node| format!("{} {}", text(node, "/metadata/name"), kernel(node))).collect();
    match old.as_slice() {
        _ if nodes.is_empty() => Subject::Kernel.failed("the cluster has no nodes", "add a node"),
        [] => Subject::Kernel.passed(format!("new enough on {} nodes", nodes.len())),
        old => Subject::Kernel.failed(format!("too old on {}", old.join(", ")), NEW_KERNEL),
    }
}

fn cpu_manager(policies: &[String]) -> Check {
    match policies.iter().filter(|policy| *policy == "static").count() {
        0 => Subject::CpuManager.warning(
            "no node has the static policy, so pods share CPUs",
            "set cpuManagerPolicy: static and a CPU reservation for the nodes of replicas",
        ),
        found => Subject::CpuManager.passed(format!("static on {found} of {}", policies.len())),
    }
}

fn custom_resources(groups: &Value, workloads: &[Value]) -> Check {
    let known = |group: &str| {
        groups["groups"].as_array().into_iter().flatten().any(|each| each["name"] == group)
    };
    let (there, absent): (Vec<_>, Vec<_>) = GROUPS.iter().partition(|(group, _)| known(group));
    let uses = workloads.iter().flat_map(containers).any(|container| {
        let arguments = container["args"].as_array().into_iter().flatten();
        arguments.filter_map(Value::as_str).any(|argument| argument.starts_with("--gateway="))
    });
    if uses && !known(GROUPS[0].0) {
        return Subject::CustomResources.failed(
            format!("route objects are enabled, and {} is not installed", GROUPS[0].0),
            "install the CRDs of Gateway API, or set routeObjects.enabled: false",
        );
    }
    let there = there.iter().map(|(group, _)| format!("{group} is installed"));
    let absent = absent.iter().map(|(group, needs)| format!("{group} is not, which {needs} needs"));
    Subject::CustomResources.passed(there.chain(absent).collect::<Vec<_>>().join("; "))
}

fn containers(object: &Value) -> impl Iterator<Item = &Value> {
    let of = |list: &str| object.pointer(list).and_then(Value::as_array).into_iter().flatten();
    of("/spec/template/spec/initContainers").chain(of("/spec/template/spec/containers"))
}

/// Checks whether every image of a pod was pulled, which only the node knows.
fn pulled(pods: &[Value]) -> Check {
    let failed = pods.iter().flat_map(|pod| {
        let lists = ["/status/initContainerStatuses", "/status/containerStatuses"];
        let states = lists.into_iter().filter_map(|list| pod.pointer(list)?.as_array()).flatten();
        states.filter_map(move |state| {
            let reason = text(state, "/state/waiting/reason");
            let image = reason.contains("Image");
            image.then(|| format!("{}: {reason} {}", name(pod), text(state, "/image")))
        })
    });
    match failed.collect::<Vec<_>>().as_slice() {
        [] => Subject::Registry.passed(format!("the images of {} pods are there", pods.len())),
        failed => Subject::Registry.failed(
            failed.join("; "),
            "push the image, or correct global.registry and imagePullSecrets",
        ),
    }
}

fn ready(workloads: &[Value]) -> Check {
    let number = |object: &Value, pointers: [&str; 2]| {
        pointers.iter().find_map(|pointer| object.pointer(pointer)?.as_u64()).unwrap_or(0)
    };
    let short = workloads.iter().filter_map(|object| {
        let wanted = number(object, ["/status/desiredNumberScheduled", "/spec/replicas"]);
        let ready = number(object, ["/status/numberReady", "/status/readyReplicas"]);
        (ready < wanted).then(|| (object, format!("{}: {ready} of {wanted} ready", name(object))))
    });
    let short: Vec<_> = short.collect();
    let Some((first, _)) = short.first() else {
        return Subject::Pods.passed(format!("all of {} workloads are ready", workloads.len()));
    };
    let fix = format!(
        "kubectl --namespace {} describe pods --selector app.kubernetes.io/name={}",
        text(first, "/metadata/namespace"),
        label(first, "app.kubernetes.io/name")
    );
    let found: Vec<_> = short.into_iter().map(|(_, text)| text).collect();
    Subject::Pods.failed(found.join("; "), fix)
}

fn node_tuning(workloads: &[Value]) -> Check {
    let tuner =
        workloads.iter().find(|each| label(each, "helm.sh/chart").starts_with("node-tuning-"));
    match tuner {
        Some(tuner) => Subject::NodeTuning.passed(format!("installed as {}", name(tuner))),
        None => Subject::NodeTuning.warning(
            "not installed, so it is unknown whether pods have exclusive CPUs",
            "helm install node-tuning charts/node-tuning --namespace node-tuning --create-namespace",
        ),
    }
}

/// Compares the versions of the charts, Corelane's images in them, and this program. Digests and
/// your own images do not contain a Corelane version.
fn versions(workloads: &[Value], own: &str) -> Check {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for object in workloads {
        if let Some((chart, version)) = label(object, "helm.sh/chart").rsplit_once('-') {
            let version = version.replace('_', "+");
            found.entry(version).or_default().push(format!("chart {chart} of {}", name(object)));
        }
        for container in containers(object) {
            let image = text(container, "/image").rsplit('/').next().unwrap_or_default();
            let ours = image.starts_with("corelane-") && !image.contains('@');
            if let Some((_, tag)) = image.rsplit_once(':').filter(|_| ours) {
                let part = format!("{} of {}", text(container, "/name"), name(object));
                found.entry(tag.to_owned()).or_default().push(part);
            }
        }
    }
    let all: Vec<_> =
        found.iter().map(|(version, parts)| format!("{version}: {}", parts.join(", "))).collect();
    match (all.as_slice(), found.contains_key(own)) {
        ([_], true) => Subject::Versions.passed(format!("{own} everywhere")),
        ([one], false) => Subject::Versions.warning(
            format!("corelane is {own}, and the cluster has {one}"),
            "use the command of the installed version",
        ),
        (several, _) => Subject::Versions.failed(
            several.join("; "),
            "helm upgrade every release to one version, with --reset-then-reuse-values",
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Outcome;
    use super::*;

    fn workload(chart: &str, image: &str, ready: u64) -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "web", "labels": {"helm.sh/chart": chart}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [
                {"name": "main", "image": image, "args": ["endpoints", "--gateway=edge"]},
            ]}}},
            "status": {"readyReplicas": ready},
        })
    }

    #[test]
    fn all_parts_must_have_one_version() {
        let gateway = workload("gateway-1.2.0", "r/corelane-gateway:1.2.0", 2);
        let judge = |other: Value, own: &str| versions(&[gateway.clone(), other], own);
        let [own, shop] = ["r/corelane-server:1.2.0", "r/shop:9"]
            .map(|image| judge(workload("service-1.2.0", image, 2), "1.2.0").outcome);
        assert_eq!([own, shop], [Outcome::Passed; 2]);
        assert_eq!(judge(gateway.clone(), "1.3.0").outcome, Outcome::Warning);
        let by_digest = workload("service-1.2.0", "r/corelane-server@sha256:00", 2);
        assert_eq!(judge(by_digest, "1.2.0").outcome, Outcome::Passed);
        for (chart, image) in
            [("service-1.1.0", "r/shop:9"), ("service-1.2.0", "r/corelane-server:1.1.0")]
        {
            let check = judge(workload(chart, image, 2), "1.2.0");
            assert_eq!(check.outcome, Outcome::Failed);
            assert!(check.found.contains("1.1.0: "), "{check:?}");
        }
    }

    #[test]
    fn what_is_installed_is_judged_by_its_status() {
        let judge = |ready_pods| ready(&[workload("service-1.0.0", "a", ready_pods)]);
        assert_eq!((judge(2).outcome, judge(1).outcome), (Outcome::Passed, Outcome::Failed));
        assert_eq!(judge(1).found, "shop/web: 1 of 2 ready");
        let waiting = |reason: &str| {
            let state = json!({"image": "r/a:1", "state": {"waiting": {"reason": reason}}});
            pulled(&[json!({"metadata": {}, "status": {"containerStatuses": [state]}})]).outcome
        };
        assert_eq!(waiting("ImagePullBackOff"), Outcome::Failed);
        assert_eq!(waiting("CrashLoopBackOff"), Outcome::Passed);
        let [uses, other] =
            ["gateway-1.0.0", "node-tuning-1.0.0"].map(|chart| workload(chart, "a", 2));
        assert_eq!(node_tuning(&[other]).outcome, Outcome::Passed);
        let groups = |name: &str| json!({"groups": [{"name": name}]});
        let judge =
            |name: &str, workloads: &[Value]| custom_resources(&groups(name), workloads).outcome;
        assert_eq!(judge("apps", &[]), Outcome::Passed);
        assert_eq!(judge("apps", std::slice::from_ref(&uses)), Outcome::Failed);
        assert_eq!(judge("gateway.networking.k8s.io", &[uses]), Outcome::Passed);
    }

    #[test]
    fn a_cluster_is_judged_by_its_nodes() {
        let node = |kernel: &str| json!({"status": {"nodeInfo": {"kernelVersion": kernel}}});
        let judge = |nodes: &[Value]| kernels(nodes).outcome;
        assert_eq!(judge(&[node("6.1.0")]), Outcome::Passed);
        assert_eq!(judge(&[node("6.1.0"), node("3.10.0")]), Outcome::Failed);
        assert_eq!(judge(&[]), Outcome::Failed);
        let version = kubernetes_version(&json!({"gitVersion": "v1.29.4"}));
        assert_eq!(version.outcome, Outcome::Failed);
        let judge = |policy: &str| cpu_manager(&["none".to_owned(), policy.to_owned()]).outcome;
        assert_eq!((judge("static"), judge("none")), (Outcome::Passed, Outcome::Warning));
    }
}
