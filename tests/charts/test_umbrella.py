"""Consistency within one chart, and between service and gateway of a release."""

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from charts import renders
from stack import REPOSITORY
from stack.rendering import CHARTS, documents, helm, is_hook, pod, render

pytestmark = pytest.mark.fast


def names(*settings: str, values: Path | None = None) -> set[tuple[str, str]]:
    objects = documents("corelane", *settings, values=values)
    return {(each["kind"], each["metadata"]["name"]) for each in objects if not is_hook(each)}


def test_it_installs_what_the_charts_install_alone() -> None:
    alone = [
        (each["kind"], each["metadata"]["name"])
        for chart, settings in (("service", ["nameOverride=corelane-server"]), ("gateway", []))
        for each in documents(chart, *settings)
        if not is_hook(each)
    ]
    together = [each for each in documents("corelane") if not is_hook(each)]
    assert len(together) == len(alone)
    assert {(each["kind"], each["metadata"]["name"]) for each in together} == set(alone)


@pytest.mark.parametrize("part", ["node-tuning", "monitoring"])
def test_what_is_beside_the_service_comes_on_demand_alone(part: str) -> None:
    added = names(f"{part}.enabled=true") - names()
    alone = {
        (each["kind"], each["metadata"]["name"]) for each in documents(part) if not is_hook(each)
    }
    assert added == alone


@pytest.mark.parametrize(("part", "name"), [("service", "server"), ("gateway", "gateway")])
def test_each_part_can_be_left_out(part: str, name: str) -> None:
    left = names(f"{part}.enabled=false")
    assert left
    assert ("Deployment", f"corelane-{name}") not in left


def test_one_registry_serves_all_images() -> None:
    objects = documents("corelane", "global.registry=all.example:5000")
    images = {
        container["image"]
        for each in objects
        for spec in [each["spec"] if each["kind"] == "Pod" else None]
        + [each["spec"]["template"]["spec"] if each["kind"] == "Deployment" else None]
        if spec
        for container in spec["containers"]
    }
    assert images
    assert all(image.startswith("all.example:5000/corelane-") for image in images)


def resources(values: Path) -> dict[str, dict]:
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"][0]["resources"]
        for each in documents("corelane", values=values)
        if each["kind"] == "Deployment"
    }


TEST_CLUSTER = REPOSITORY / "hack/cluster/values.yaml"
ONE_CPU_NODES = CHARTS / "corelane" / "values-one-cpu-nodes.yaml"


@pytest.mark.parametrize("values", [ONE_CPU_NODES, TEST_CLUSTER], ids=lambda file: file.name)
def test_nodes_with_one_cpu_give_it_to_a_replica(values: Path) -> None:
    found = resources(values)
    server = found["corelane-server"]
    # Guaranteed pods need exactly these two limits.
    assert server["limits"].keys() == {"cpu", "memory"}
    assert server["limits"].items() <= server["requests"].items()
    assert server["requests"]["cpu"] == "1"
    assert not [part for part in found["corelane-gateway"].values() if "cpu" in part]


def test_the_test_cluster_has_the_values_for_its_nodes() -> None:
    assert leaves(ONE_CPU_NODES) <= leaves(TEST_CLUSTER)


def leaves(values: Path) -> set[tuple[str, str]]:
    def walk(part: dict, prefix: str) -> Iterator[tuple[str, str]]:
        for key, value in part.items():
            if isinstance(value, dict):
                yield from walk(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", str(value)

    return set(walk(yaml.safe_load(values.read_text()), ""))


def test_default_values_ask_for_no_whole_cpu(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("{}")
    found = resources(tmp_path / "none.yaml")
    assert set(found) == {"corelane-server", "corelane-gateway"}
    for each in found.values():
        assert each["requests"]["cpu"] == "100m"
        assert "cpu" not in each["limits"]


def test_a_packaged_chart_renders_the_same(tmp_path: Path) -> None:
    """The copy ran `helm dependency build`, which leaves archives next to links."""
    # Targets of the links in charts/monitoring.
    for copied in ("charts", "dashboards"):
        shutil.copytree(REPOSITORY / copied, tmp_path / copied, symlinks=True)
    folder = tmp_path / "charts"
    parts = ("service", "gateway", "monitoring", "corelane")
    commands = [("dependency", "build", folder / part) for part in parts]
    for argv in (*commands, ("package", folder / "corelane", "-d", tmp_path)):
        result = helm(*argv)
        assert result.returncode == 0, result.stderr
    (archive,) = tmp_path.glob("corelane-*.tgz")
    with tarfile.open(archive) as packed:
        files = packed.getnames()
    assert len(files) == len(set(files))
    assert not [name for name in files if name.endswith((".tgz", ".gotmpl", "_test.yaml"))]
    assert "corelane/charts/service/charts/common/Chart.yaml" in files
    values = ("--values", renders.REGISTRY)
    rendered = helm("template", "corelane", archive, "--namespace", "prod", *values)
    assert rendered.returncode == 0, rendered.stderr
    parsed = [each for each in yaml.safe_load_all(rendered.stdout) if each]
    assert parsed == documents("corelane")


QUANTITIES = {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": "1Gi"}
RESOURCES = {"resources": {"requests": QUANTITIES, "limits": QUANTITIES}}


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        ("service", {**RESOURCES, "test": RESOURCES}),
        ("gateway", {**RESOURCES, "agent": RESOURCES, "test": RESOURCES}),
        ("node-tuning", {**RESOURCES, "test": RESOURCES}),
        ("loadtest", {**RESOURCES, "start": RESOURCES}),
        (
            "monitoring",
            {
                "mode": "standalone",
                "prometheus": RESOURCES,
                "alertmanager": RESOURCES,
                "grafana": {**RESOURCES, "admin": {"secret": "admin"}},
                "test": RESOURCES,
            },
        ),
    ],
)
def test_every_container_fits_a_quota(chart: str, values: dict, tmp_path: Path) -> None:
    """Includes hooks: with a ResourceQuota, namespaces reject pods without requests and limits."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    found = {}
    for each in documents(chart, values=tmp_path / "values.yaml"):
        spec = each["spec"]["template"]["spec"] if "template" in each.get("spec", {}) else each
        spec = spec["spec"] if each["kind"] == "Pod" else spec
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            found[each["kind"], each["metadata"]["name"], container["name"]] = container
    assert {kind for kind, *_ in found} & {"Pod", "Job"}
    assert {key: each["resources"] for key, each in found.items()} == dict.fromkeys(
        found, RESOURCES["resources"]
    )


BOTH = pytest.mark.parametrize("chart", ["gateway", "service"])


@pytest.mark.parametrize(
    ("chart", "setting"), [("service", "config.backlog=64"), ("gateway", "listener.http2Streams=7")]
)
def test_a_changed_configuration_rolls_the_pods(chart: str, setting: str) -> None:
    def checksum(*settings: str) -> str:
        metadata = render(chart, *settings)["Deployment"]["spec"]["template"]["metadata"]
        return metadata["annotations"]["checksum/config"]

    assert checksum() == checksum("replicas=5")
    assert checksum() != checksum(setting)


@BOTH
def test_selectors_find_the_pods(chart: str) -> None:
    objects = render(chart)
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["Service"]["spec"]["selector"].items() <= labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"].items() <= labels
    spread = pod(objects)["topologySpreadConstraints"]
    assert [entry["topologyKey"].split("/")[1] for entry in spread] == ["hostname", "zone"]
    for entry in spread:
        assert entry["labelSelector"]["matchLabels"].items() <= labels


@BOTH
def test_a_new_version_alone_does_not_roll_the_pods(chart: str) -> None:
    labels = render(chart)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    parts = {f"app.kubernetes.io/{part}" for part in ("name", "instance", "part-of", "component")}
    assert set(labels) - {"corelane/service"} == parts
