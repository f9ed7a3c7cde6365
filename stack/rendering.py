"""Renders the charts with the real Helm and checks Envoy configurations with the real Envoy."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stack import REPOSITORY
from tools.resolve import tool

CHARTS = REPOSITORY / "charts"
REGISTRY = REPOSITORY / "tests" / "charts" / "registry.yaml"
"""Values that every chart needs for its images."""
GATEWAY_VALUES = sorted((REPOSITORY / "gateway" / "values").glob("*.yaml"))
BASES = {"service": (CHARTS / "service" / "values-reference.yaml",)}
"""Values of charts that need more than these for their images."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's C loader if available, because dashboards are long."""
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("helm"), *arguments], capture_output=True, text=True, check=False)


def template(
    chart: str, *settings: str, values: Path | None = None, release: str = "corelane"
) -> subprocess.CompletedProcess[str]:
    """Runs `helm template` with `--set` settings and a values file, once for each combination."""
    # Keyed by content, because a test may rewrite the file.
    return _template(chart, settings, values.read_text() if values else "", release)


@cache
def _template(
    chart: str, settings: tuple[str, ...], values: str, release: str
) -> subprocess.CompletedProcess[str]:
    argv = [tool("helm"), "template", release, CHARTS / chart, "--namespace", "prod"]
    for file in (REGISTRY, *BASES.get(chart, ())):
        argv += ["--values", file]
    argv += ["--values", "-"] if values else []
    argv += [argument for setting in settings for argument in ("--set", setting)]
    return subprocess.run(argv, input=values, capture_output=True, text=True, check=False)


def documents(chart: str, *settings: str, **options: Any) -> list[dict]:
    """Returns all objects of a chart, including the `helm test` objects."""
    result = template(chart, *settings, **options)
    assert result.returncode == 0, result.stderr
    return [document for document in yaml.load_all(result.stdout, LOADER) if document]


def is_hook(document: dict) -> bool:
    """Whether Helm runs an object only at a given moment, such as `helm test`."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def render(chart: str, *settings: str, **options: Any) -> dict[str, dict]:
    """A chart's objects by kind, without hooks; each kind occurs once."""
    objects = [each for each in documents(chart, *settings, **options) if not is_hook(each)]
    kinds = {document["kind"]: document for document in objects}
    assert len(kinds) == len(objects)
    return kinds


def check_pods(chart: str, *settings: str, **options: Any) -> dict[str, dict]:
    pods = [each for each in documents(chart, *settings, **options) if is_hook(each)]
    assert {each["kind"] for each in pods} <= {"Pod"}
    return {each["metadata"]["name"]: each for each in pods}


def pod(objects: dict[str, dict]) -> dict:
    return objects["Deployment"]["spec"]["template"]["spec"]


def container(objects: dict[str, dict]) -> dict:
    (only,) = pod(objects)["containers"]
    return only


def envoy_config(*settings: str, **options: Any) -> dict:
    return yaml.load(envoy_files(*settings, **options)["envoy.yaml"], LOADER)


def envoy_files(*settings: str, **options: Any) -> dict[str, str]:
    """Files of Envoy's folder in a gateway pod, with the routes in its configuration."""
    files, routes = config_maps(*settings, **options)
    if routes:
        configuration = yaml.load(files["envoy.yaml"], LOADER)
        _include(configuration, {name: json.loads(text) for name, text in routes.items()})
        files = {**files, "envoy.yaml": yaml.dump(configuration, Dumper=DUMPER)}
    return files


def config_maps(*settings: str, **options: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Files of Envoy's folder, and files that the agent reads, if any."""
    objects = [each for each in documents("gateway", *settings, **options) if not is_hook(each)]
    files, *routes = (each["data"] for each in objects if each["kind"] == "ConfigMap")
    return files, routes[0] if routes else {}


def _include(configuration: dict, routes: dict) -> None:
    """Inserts the parts that Envoy reads from the agent's files."""
    del configuration["dynamic_resources"]
    resources = configuration["static_resources"]
    resources["clusters"] = routes["clusters.json"] + resources["clusters"]
    resources["listeners"] += routes.get("listeners.json", [])
    for listener in resources["listeners"]:
        (chain,) = listener["filter_chains"]
        manager = chain["filters"][0]["typed_config"]
        if manager.pop("rds", None):
            manager["route_config"] = routes["routes.json"]
        for each in manager["http_filters"]:
            if each["name"] == "corelane.route_rate_limits" and each.pop("config_discovery", None):
                each["typed_config"] = routes["rate-limits.json"]


def default_values(chart: str) -> dict:
    return yaml.safe_load((CHARTS / chart / "values.yaml").read_text())
