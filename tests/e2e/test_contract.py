"""The replica contract (docs/contract.md), tested with services in Go, Node and Rust, each a
charts/service release.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from deploy import images, run
from stack import REPOSITORY, eventually
from stack.http import ask
from support.exposition import families
from support.kubernetes import PAUSE, ROLL_OUT
from support.releases import Release, beside

NAMESPACE = "corelane-contract"
EXAMPLES = REPOSITORY / "services" / "examples"
NAMES = ("go", "node", "rust")
FOREIGN = ("go", "node")
OTHER = {
    "runtime": "other",
    "ports": {"admin": 0},
    "probes": {"type": "http", "path": "/healthz"},
    "metrics": {"port": "http"},
}
"""One port for traffic, health checks and metrics."""


def loaded(name: str, entrypoint: str, folder: Path, *files: str) -> dict:
    """Builds an image from these files and loads it into the nodes; returns chart values."""
    more = ("--entrypoint", entrypoint, "--tag", "{digest}", "--out", folder)
    reference, _, _, archive = (
        run.ours("images", "files", f"contract-{name}", *files, *more).strip().split("  ", 3)
    )
    images.bring([Path(archive)])
    repository, _, tag = reference.partition(":")
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}


def image_of_go(folder: Path) -> dict:
    program = folder / "web"
    subprocess.run(
        ["go", "build", "-trimpath", "-o", program, "."],
        cwd=EXAMPLES / "go",
        env={**os.environ, "CGO_ENABLED": "0"},
        check=True,
    )
    return loaded("go", "/web", folder, f"{program}=/web")


def image_of_node(folder: Path) -> dict:
    """Packages the machine's own Node with its shared libraries."""
    node = shutil.which("node")
    linked = subprocess.run(["ldd", node], capture_output=True, text=True, check=True).stdout
    libraries = {word for word in linked.split() if word.startswith("/")}
    server = f"{EXAMPLES / 'node' / 'server.mjs'}=/server.mjs"
    files = [f"{node}=/node", server, *(f"{file}={file}" for file in sorted(libraries))]
    return loaded("node", "/node /server.mjs", folder, *files)


@pytest.fixture(scope="module")
def services(
    deployed: Release, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Release]]:
    """One release per service, installed concurrently; skips Node if it is not available."""
    folder = tmp_path_factory.mktemp("contract")
    tag = dict(setting.split("=") for setting in deployed.settings)["service.image.tag"]
    server = {"repository": "corelane-server", "tag": tag, "pullPolicy": "Never"}
    values = {"go": {**OTHER, "image": image_of_go(folder)}}
    if shutil.which("node"):
        values["node"] = {**OTHER, "image": image_of_node(folder)}
    values["rust"] = {"image": server, "config": {"log": {"format": "json"}}}
    with deployed.cluster.restricted(NAMESPACE) as own:
        made = {name: beside(deployed, own, name, folder, each) for name, each in values.items()}
        with ThreadPoolExecutor() as pool:
            list(pool.map(Release.upgrade, made.values()))
        yield made


@pytest.fixture
def service(services: dict[str, Release], name: str) -> Release:
    if name not in services:
        pytest.skip("there is no program node on PATH, of which an image could be made")
    return services[name]


@pytest.fixture(scope="module")
def routed(
    deployed: Release, services: dict[str, Release], tmp_path_factory: pytest.TempPathFactory
) -> Release:
    """Adds the /go, /node and /rust routes."""
    routes = [
        {
            "name": name,
            "path": {"prefix": f"/{name}"},
            "service": {"name": name, "namespace": NAMESPACE},
            "rewrite": {"path": "/hello"},
            **({"health": {"path": "/healthz", "port": 8080}} if name in FOREIGN else {}),
        }
        for name in services
    ]
    file = tmp_path_factory.mktemp("routes") / "routes.yaml"
    file.write_text(json.dumps({"gateway": {"routes": routes}}))
    found = replace(deployed, values=[*deployed.values, file])
    found.upgrade()
    for name in services:
        eventually(
            lambda path=f"/{name}": ask(found.gateway, path).status == 200,
            f"a reply of {name}",
            patience=ROLL_OUT,
        )
    return found


@pytest.mark.parametrize("name", NAMES)
def test_helm_test_passes(service: Release) -> None:
    tested = service.helm("test", service.name)
    assert "Phase:          Succeeded" in tested.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_label_of_a_replica_is_its_release(service: Release) -> None:
    chosen = f"corelane/service={service.name}"
    pods = service.cluster.items("pods", "--selector", chosen)
    assert {pod["metadata"]["name"] for pod in pods} == service.pods()
    assert len(pods) == 2


@pytest.mark.parametrize("name", FOREIGN)
def test_metrics_are_where_the_pod_says(service: Release) -> None:
    (pod, *_) = service.pods()
    annotations = service.cluster.get("pod", pod)["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    with service.cluster.forwarded(pod, int(annotations["prometheus.io/port"])) as url:
        page = ask(url, annotations["prometheus.io/path"]).body.decode()
    assert families(page)["web_requests_total"].type == "counter"


def replace_all(services: dict[str, Release], change: Callable[[Release], object]) -> None:
    """Changes all releases at once and waits for the rollouts."""

    def one(release: Release) -> None:
        old = release.pods()
        change(release)
        eventually(
            lambda: not old & release.pods(), "the end of the old", patience=ROLL_OUT, pause=PAUSE
        )

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, services.values()))


def test_a_roll_out_and_the_way_back_fail_no_request(
    routed: Release, services: dict[str, Release]
) -> None:
    first = {name: release.pods() for name, release in services.items()}
    with ExitStack() as stack:
        loads = {
            name: stack.enter_context(routed.load(path=f"/{name}", rate=150.0)) for name in services
        }
        replace_all(services, lambda each: each.upgrade("env[0].name=VERSION,env[0].value=next"))
        second = {name: release.pods() for name, release in services.items()}
        bodies = {
            name: ask(routed.gateway, f"/{name}").body.decode()
            for name in FOREIGN
            if name in services
        }
        replace_all(services, lambda each: each.rollback(1))
        total = sum(load.total for load in loads.values())
        for load in loads.values():
            load.wait_for(max(400, ceil((10_000 - total) / len(loads))), patience=ROLL_OUT)
    assert bodies == {name: f"{name} next\n" for name in bodies}
    for name, load in loads.items():
        print(f"\n{name}: {load.total} requests, {len(load.failures)} failed", end="")
    for name, load in loads.items():
        assert not load.failures, (name, load.failures[:10])
        assert set(load.replies) == first[name] | second[name] | services[name].pods()
    assert sum(load.total for load in loads.values()) >= 10_000


@pytest.mark.parametrize("name", FOREIGN)
def test_a_replica_that_ends_serves_first_and_then_drains(
    routed: Release, service: Release, tmp_path: Path
) -> None:
    """The kubelet delays SIGTERM, because these images have no shell. By then, gateways know about
    the shutdown.
    """
    (pod, *_) = service.pods()
    cluster = service.cluster

    def conditions() -> list[dict]:
        slices = cluster.items(
            "endpointslices", "--selector", f"kubernetes.io/service-name={service.name}"
        )
        return [
            each["conditions"]
            for found in slices
            for each in found["endpoints"]
            if each["targetRef"]["name"] == pod
        ]

    with (
        routed.load(path=f"/{service.name}") as load,
        cluster.last_words(pod, tmp_path / "log"),
        cluster.forwarded(pod, 8080) as url,
    ):
        cluster.kubectl("delete", "pod", pod, "--wait=false")
        eventually(
            lambda: [each["terminating"] for each in conditions()] == [True], "an end", pause=PAUSE
        )
        # A new connection.
        assert ask(url).replica == pod
    assert not load.failures, load.failures[:10]
    assert "drained" in (tmp_path / "log").read_text()


def test_uninstalling_leaves_nothing_behind(routed: Release, services: dict[str, Release]) -> None:
    cluster = next(iter(services.values())).cluster
    # The platform owns the Role for reading endpoints.
    others = ("--selector", f"app.kubernetes.io/instance!={routed.name}")
    assert cluster.leftovers(*others)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda each: each.helm("uninstall", each.name, "--wait"), services.values()))
    eventually(lambda: not cluster.leftovers(*others), "an empty namespace", patience=ROLL_OUT)
