"""Autoscaler metrics on the local cluster: metrics-server, and prometheus-adapter with
charts/service's rules.
"""

import json
import textwrap
from pathlib import Path

from cluster import images, local, records
from cluster.api import Api
from cluster.settings import FOLDER, Settings
from stack import REPOSITORY, in_time
from tools import command, progress, resolve
from tools.errors import ToolError

PROGRAMS = ("metrics-server", "prometheus-adapter")
APIS = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")
VALUES = REPOSITORY / "charts" / "service" / "prometheus-adapter.yaml"
"""The adapter's chart uses different names for the parts of its configuration."""

PARTS = {"custom:": "rules:", "external:": "externalRules:"}
WINDOWS = {"[30s]": "[6s]", "[1m]": "[12s]"}
"""Rule windows at a fifth of their length, like the controller's periods (components.py)."""

PATIENCE = 180.0


def install(settings: Settings, prometheus: str, *, whole: bool) -> int:
    """Installs both servers for a Prometheus at this URL, and waits until the API server serves
    their APIs.
    """
    local.kubeconfig(settings)
    built = resolve.ensure(PROGRAMS)
    archives = [
        images.of_program(f"corelane-{name}:cluster", f"/{name}", built[name]) for name in PROGRAMS
    ]
    local.load(settings, archives)
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prometheus-adapter", "namespace": "kube-system"},
        "data": {"config.yaml": rules(whole=whole)},
    }
    manifest = (FOLDER / "autoscaling.yaml").read_text().replace("{prometheus}", prometheus)
    with progress.step("autoscaling", "metrics-server and prometheus-adapter"):
        objects = f"{json.dumps(config)}\n---\n{manifest}"
        _kubectl(settings, "apply", "--filename", "-", stdin=objects)
        api = Api.of(settings.state)
        if not in_time(lambda: all(_available(api, name) for name in APIS), PATIENCE, 0.5):
            raise ToolError(f"not all of {', '.join(APIS)} are available: kubectl get apiservices")
    return 0


def rules(*, whole: bool) -> str:
    """Returns the adapter's configuration for this cluster; `whole` windows are as long as in production."""
    _, _, text = VALUES.read_text().partition("\n  default: false\n")
    found = textwrap.dedent(text)
    for old, new in (PARTS if whole else PARTS | WINDOWS).items():
        found = found.replace(old, new)
    return found


def remove(settings: Settings) -> int:
    """Removes both servers with their APIs: an API without its server would delay the deletion of
    namespaces.
    """
    local.kubeconfig(settings)
    file = FOLDER / "autoscaling.yaml"
    _kubectl(settings, "delete", "--ignore-not-found", "--filename", file)
    return 0


def _available(api: Api, group: str) -> bool:
    text = api.get(f"/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.{group}")
    conditions = json.loads(text or "{}").get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def _kubectl(settings: Settings, *arguments: str | Path, stdin: str = "") -> None:
    kubectl = resolve.tool("kubectl")
    config = records.kubeconfig(settings.state)
    command.output([kubectl, "--kubeconfig", config, *arguments], stdin=stdin)
