"""Values that Kubernetes, a kubelet or Envoy refuses after a release began. The chart refuses them first.

Text that looks like a number or a boolean stays text in what is rendered.
"""

import json
import re

import pytest
import yaml

from charts import renders
from stack.rendering import BASES, CHARTS, LOADER, helm

pytestmark = pytest.mark.fast

REFUSED = [
    # Of the chart, the key and the JSON of the value.
    ("service", "env", '[{"name": "A", "value": 5}]'),
    ("service", "env", '[{"name": "A=B", "value": ""}]'),
    ("service", "env", '[{"name": "A", "valeu": ""}]'),
    ("gateway", "extraEnv", '[{"name": "A", "value": true}]'),
    ("service", "image.repository", '"Team/shop"'),
    ("service", "image.repository", '"https://registry.example/shop"'),
    ("service", "image.tag", '"v1+build"'),
    ("service", "global.registry", '"https://registry.example"'),
    ("gateway", "global.registry", '"registry.example/"'),
    ("service", "imagePullSecrets", '[{"name": "Pull_Secret"}]'),
    ("service", "labels", '{"team": "web shop"}'),
    ("service", "labels", '{"a key": "x"}'),
    ("service", "podLabels", '{"team": "' + "x" * 64 + '"}'),
    ("gateway", "podAnnotations", '{"a key": "x"}'),
    ("service", "nodeSelector", '{"pool": true}'),
    ("service", "tolerations", '[{"key": "pinned", "value": true}]'),
    ("gateway", "tolerations", '[{"key": "pinned", "effect": "NoRun"}]'),
    ("service", "topologySpread[0].whenUnsatisfiable", '"Never"'),
    ("service", "resources", '{"limits": {"memory": "512MB"}}'),
    ("service", "resources", '{"limits": {"ram": "512Mi"}}'),
    ("node-tuning", "cpu", '"half"'),
    ("service", "volumes", '[{"name": "my_data"}]'),
    ("service", "volumeMounts", '[{"name": "data", "mountPath": "data:ro"}]'),
    ("service", "tls.secret", '"my_secret"'),
    ("gateway", "tls.secret", '"my secret"'),
    ("service", "serviceAccount.name", '"Shop"'),
    ("service", "priorityClassName", '"very high"'),
    ("service", "service.appProtocol", '"kubernetes.io/h2c/x"'),
    ("service", "routes.hosts", '["Shop.example:80"]'),
    ("service", "routes.paths", '["/a//b"]'),
    ("service", "routes.paths", '["/a?b"]'),
    ("service", "routes.timeout", '"100000s"'),
    ("service", "probes.port", '"admin_port"'),
    ("service", "replicas", "3000000000"),
    ("service", "drain.deadline", '"999999999999h"'),
    ("service", "networkPolicy.clients", '[{"ipBlock": {"cidr": "10.0.0.0/33"}}]'),
    ("service", "networkPolicy.clients", '[{"ipBlock": {"cidr": "10.0.0.256/8"}}]'),
    ("gateway", "service.loadBalancerSourceRanges", '["10.0.0.0"]'),
    ("gateway", "agent.apiServer.cidrs", '["fd00::/129"]'),
    ("gateway", "listener.address", '"0.0.0.256"'),
    ("gateway", "listener.bodyBytes", "4294967296"),
    ("gateway", "listener.connections", "4294967296"),
    ("gateway", "upstream.dns.hostname", '"shop:8080"'),
    ("gateway", "tracing.host", '"http://collector"'),
    ("gateway", "routeObjects.className", '"A class"'),
    ("gateway", "service.loadBalancerClass", '"a b"'),
    ("gateway", "sysctls", '{"net.ipv4.ip_local_port_range": "100000 200000"}'),
    ("node-tuning", "address", '"node-1"'),
    ("monitoring", "prometheus.externalLabels", '{"cluster-name": "a"}'),
    ("monitoring", "prometheus.persistence.storageClass", '"Fast SSD"'),
    ("monitoring", "grafana.settings", '{"GF-A": "x"}'),
    ("loadtest", "target.token.secret", '"my_token"'),
    ("loadtest", "target.token.key", '"a/b"'),
]


@pytest.mark.parametrize(("chart", "key", "value"), REFUSED)
def test_what_the_next_layer_refuses_is_refused(chart: str, key: str, value: str) -> None:
    files = [f"--values={file}" for file in (renders.REGISTRY, *BASES.get(chart, ()))]
    result = helm("template", "shop", CHARTS / chart, *files, "--set-json", f"{key}={value}")
    assert result.returncode != 0
    named = re.split(r"[.[]", key)[0 if "[" in key else -1] in result.stderr
    assert named or "invalid propertyName" in result.stderr
    assert "error calling" not in result.stderr


@pytest.mark.parametrize("release", ["1shop", "shop.web", "s" * 53])
def test_a_release_whose_name_no_service_can_have_is_refused(release: str) -> None:
    files = [f"--values={renders.REGISTRY}", "--set", "mode=standalone,grafana.admin.secret=a"]
    result = helm("template", release, CHARTS / "monitoring", *files)
    assert result.returncode != 0
    assert f"the release {release} gives its objects the name {release}" in result.stderr


NAMES = {
    "service": "serviceAccount.name priorityClassName tls.secret service.appProtocol podLabels.a nodeSelector.a "
    "routes.gateway.name routes.gateway.namespace imagePullSecrets[0].name env[0].value test.image.tag",
    "gateway": "serviceAccount.name priorityClassName tls.secret authentication.jwt.secret labels.a podAnnotations.a "
    "routeObjects.className routeObjects.gateway service.loadBalancerClass extraEnv[0].value",
    "node-tuning": "serviceAccount.name priorityClassName nodeSelector.a",
    "monitoring": "prometheus.serviceAccount.name priorityClassName grafana.admin.secret grafana.admin.userKey "
    "prometheus.persistence.storageClass alertmanager.config.secret namespaces[0]",
    "loadtest": "serviceAccount.name priorityClassName target.token.secret target.token.key authorities.configMap "
    "remoteWrite.secret remoteWrite.certificate remoteWrite.tokenKey testid",
}
"""Keys whose values are text."""
FIXED = {
    "service": "routes.enabled=true,env[0].name=A,cpus=1",
    "gateway": "tls.enabled=true,service.type=LoadBalancer,routeObjects.enabled=true,extraEnv[0].name=A,"
    "authentication.jwt.enabled=true,authentication.jwt.issuer=https://i.example,authentication.jwt.audiences[0]=a",
    "node-tuning": "mode=apply",
    "monitoring": "mode=standalone,prometheus.persistence.enabled=true",
    "loadtest": "remoteWrite.url=http://p.example,remoteWrite.authentication=bearer",
}


def texts(chart: str, word: str) -> str:
    """What a chart renders where names are a word, without the checksums."""
    files = [f"--values={file}" for file in (renders.REGISTRY, *BASES.get(chart, ()))]
    sets = [f"--set-string={key}={word}" for key in NAMES[chart].split()]
    argv = [CHARTS / chart, "--namespace", word, *files, "--set", FIXED[chart], *sets]
    result = helm("template", word, *argv)
    assert result.returncode == 0, result.stderr
    objects = [each for each in yaml.load_all(result.stdout, LOADER) if each]
    for each in objects:
        for name, text in each.get("data", {}).items():
            # YAML in YAML: its quotes differ, as they should.
            each["data"][name] = (
                yaml.load(text, LOADER) if name.endswith((".yaml", ".yml")) else text
            )
    objects.sort(key=lambda each: (each["kind"], each["metadata"]["name"]))
    found = json.dumps(objects, sort_keys=True)
    return re.sub(r'"checksum/[a-z]+": "[0-9a-f]+"', "", found)


@pytest.mark.parametrize("word", ["on", "null", "e1"])
@pytest.mark.parametrize("chart", NAMES)
def test_text_stays_text(chart: str, word: str) -> None:
    assert texts(chart, word) == texts(chart, "zzqq").replace("zzqq", word)
