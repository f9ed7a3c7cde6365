"""Values that Kubernetes, the kubelet or Envoy would reject late; the chart rejects them early.

Numeric-looking text stays text.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from charts import renders
from stack.rendering import BASES, CHARTS, LOADER, helm

pytestmark = pytest.mark.fast

ROWS = [
    (chart, row)
    for chart, rows in yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text()).items()
    for row in rows
]
IMAGE = {"service": {"image": {"repository": "registry.example/team/shop", "tag": "1"}}}
"""Charts without a default image."""


@pytest.mark.parametrize(("chart", "row"), ROWS, ids=lambda it: json.dumps(it)[:60])
def test_a_value_is_refused_with_its_name_and_what_to_do(chart: str, row: dict) -> None:
    values = IMAGE.get(chart, {}) | row["set"]
    sets = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    version = f"--kube-version={row.get('kubernetes', renders.KUBERNETES)}"
    argv = [CHARTS / chart, "--namespace=prod", f"--values={renders.REGISTRY}", version, *sets]
    result = helm("template", "corelane", *argv)
    if "error" in row:
        assert result.returncode != 0
        assert re.search(row["error"], result.stderr), result.stderr
        assert "error calling" not in result.stderr
    else:
        assert result.returncode == 0, result.stderr


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
"""Keys with text values."""
FIXED = {
    "service": "routes.enabled=true,env[0].name=A,cpus=1",
    "gateway": "tls.enabled=true,service.type=LoadBalancer,routeObjects.enabled=true,extraEnv[0].name=A,"
    "authentication.jwt.enabled=true,authentication.jwt.issuer=https://i.example,authentication.jwt.audiences[0]=a",
    "node-tuning": "mode=apply",
    "monitoring": "mode=standalone,prometheus.persistence.enabled=true",
    "loadtest": "remoteWrite.url=http://p.example,remoteWrite.authentication=bearer",
}


def texts(chart: str, word: str) -> str:
    """Renders with every name replaced, without checksums."""
    files = [f"--values={file}" for file in (renders.REGISTRY, *BASES.get(chart, ()))]
    sets = [f"--set-string={key}={word}" for key in NAMES[chart].split()]
    argv = [CHARTS / chart, "--namespace", word, *files, "--set", FIXED[chart], *sets]
    result = helm("template", word, *argv)
    assert result.returncode == 0, result.stderr
    objects = [each for each in yaml.load_all(result.stdout, LOADER) if each]
    for each in objects:
        for name, text in each.get("data", {}).items():
            # Nested YAML is quoted differently.
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
