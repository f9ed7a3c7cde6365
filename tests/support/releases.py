"""The platform as a Helm release.

Fixtures: `cluster` is the running cluster; `release` is the platform as deployed by `make deploy`.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import pytest

from deploy import images, releases, run
from stack import REPOSITORY, SLOWER, eventually
from stack.http import ask
from stack.load import Load
from support.kubernetes import COMMAND, ROLL_OUT, Cluster, Pod
from tools.resolve import tool

CHART = REPOSITORY / "charts" / "corelane"
SERVICE = REPOSITORY / "charts" / "service"

AT_ONCE = ("service.rollout.maxUnavailable=2", "gateway.rollout.maxUnavailable=2")
"""Rollout without staggering."""


@dataclass
class Release:
    """A Helm release, by default of the umbrella chart."""

    cluster: Cluster
    name: str
    values: list[Path]
    settings: list[str] = field(default_factory=list)
    chart: Path = CHART
    served: tuple[object, ...] = ()
    """Arguments and resulting state of the last `serve`."""

    def helm(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [tool("helm"), "--namespace", self.cluster.namespace, *map(str, arguments)],
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND,
            check=False,
        )
        assert not check or result.returncode == 0, f"helm {arguments}: {result.stderr}"
        return result

    def upgrade(
        self,
        *settings: str,
        strings: tuple[str, ...] = (),
        chart: Path | None = None,
        check: bool = True,
        wait: bool = True,
        patience: float = ROLL_OUT,
    ) -> subprocess.CompletedProcess[str]:
        """Upgrades to the values of `make deploy` plus these, and waits.

        `strings` are passed with --set-string.
        """
        arguments: list[str | Path] = ["upgrade", "--install", self.name, chart or self.chart]
        for file in self.values:
            arguments += ["--values", file]
        for setting in [*self.settings, *settings]:
            arguments += ["--set", setting]
        for setting in strings:
            arguments += ["--set-string", setting]
        if wait:
            arguments += ["--wait", "--timeout", f"{patience:.0f}s"]
        return self.helm(*arguments, check=check)

    def serve(self, *settings: str, strings: tuple[str, ...] = ()) -> None:
        """Deploys on all nodes from any earlier state and waits for responses."""
        wanted = self._wish(*settings, strings=strings)
        released, running = self._state()
        if self.served == (wanted, released, running):
            return
        for node in self.cluster.nodes():
            self.cluster.kubectl("uncordon", node)
        if self.served[:2] != (wanted, released):
            # There is no traffic yet, so all pods may stop at the same time.
            self.upgrade(*settings, *AT_ONCE, strings=strings, wait=False)
            self.upgrade(*settings, strings=strings)
        self.cluster.wait_for_pods("server", 2)
        self.cluster.wait_for_pods("gateway", 2)
        self.wait_until_it_answers()
        self.served = (wanted, *self._state())

    def installed(self) -> Self:
        """After `make deploy`, the first `serve` only waits for its pods."""
        self.served = (self._wish(), self._state()[0], [])
        return self

    def _wish(self, *settings: str, strings: tuple[str, ...] = ()) -> tuple[object, ...]:
        # The result includes values, which differ between releases made by `replace`.
        return settings, strings, [file.read_text() for file in self.values]

    def _state(self) -> tuple[list[object], list[object]]:
        """Everything a test may change: revisions, content, nodes and pods."""
        released: list[object] = []
        running: list[object] = []
        for found in self.cluster.items("nodes,secrets,deployments,statefulsets,pods"):
            kind, metadata = found["kind"], found["metadata"]
            if kind == "Node":
                running.append((metadata["name"], found["spec"]))
            elif kind == "Secret":
                released.append((metadata["name"], metadata["resourceVersion"]))
            elif kind != "Pod":
                released.append((metadata["uid"], metadata["generation"]))
            elif "ownerReferences" in metadata:
                running.append(Pod.of(found))
        return released, running

    def pods(self) -> set[str]:
        """Replicas of a charts/service release, including terminating ones."""
        chosen = f"corelane/service,app.kubernetes.io/instance={self.name}"
        found = self.cluster.items("pods", "--selector", chosen)
        return {pod["metadata"]["name"] for pod in found}

    def rollback(self, revision: int) -> None:
        self.helm("rollback", self.name, str(revision), "--wait", "--timeout", f"{ROLL_OUT:.0f}s")

    @property
    def revision(self) -> int:
        """0 if not installed."""
        found = self.helm("status", self.name, "--output", "json", check=False)
        if found.returncode == 0:
            return json.loads(found.stdout)["version"]
        assert "not found" in found.stderr, found.stderr
        return 0

    @property
    def program(self) -> str:
        """The image that `helm test` uses."""
        setting = "service.test.image.tag="
        (tag,) = (each.removeprefix(setting) for each in self.settings if each.startswith(setting))
        return f"docker.io/library/corelane-cli:{tag}"

    @cached_property
    def gateway(self) -> str:
        """The gateway's URL for clients outside the cluster; values set the port."""
        return self.cluster.address_of(f"{self.name}-gateway")

    @property
    def url(self) -> str:
        """Lets server tests run against the platform."""
        return self.gateway

    def load(self, **options: object) -> Load:
        """A constant keep-alive load that even slow CPUs sustain."""
        return Load(self.gateway, **{"clients": 16, "rate": 200.0 / SLOWER, **options})

    @contextmanager
    def each_gateway(self) -> Iterator[list[str]]:
        with ExitStack() as stack:
            pods = self.cluster.ready_pods("gateway")
            yield [stack.enter_context(self.cluster.forwarded(pod.name, 8080)) for pod in pods]

    def wait_until_it_answers(self) -> None:
        """Waits until every ready replica answers through each gateway, because gateways discover
        replicas independently.
        """
        wanted = {pod.name for pod in self.cluster.ready_pods("server")}

        def all_seen(url: str, seen: set[str | None]) -> bool:
            with suppress(OSError):
                reply = ask(url, "/hello")
                seen |= {reply.replica} if reply.status == 200 else set()
            return wanted <= seen

        with self.each_gateway() as urls:
            for url in (*urls, self.gateway):
                seen: set[str | None] = set()
                check = partial(all_seen, url, seen)
                eventually(check, f"replies of {wanted} through {url}", patience=ROLL_OUT)


def beside(platform: Release, own: Cluster, name: str, folder: Path, values: dict) -> Release:
    """A service in another namespace behind the platform's gateway. It requests no CPU, because the
    nodes have none to spare.
    """
    tags = dict(setting.split("=") for setting in platform.settings)
    common = {
        "global": {"registry": "docker.io/library"},
        "resources": {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        # Time for the gateway to discover a replica before the old one stops.
        "minReadySeconds": 3,
        "routes": {"gateway": {"namespace": platform.cluster.namespace}},
        "test": {"image": {"tag": tags["service.test.image.tag"], "pullPolicy": "Never"}},
    }
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(common | values))
    return Release(own, name, [file], chart=SERVICE)


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster(run.kubeconfig(), run.namespace())


@pytest.fixture(scope="session")
def deployed(cluster: Cluster, pytestconfig: pytest.Config) -> Iterator[Release]:
    """Deploys this tree's images. The release is kept if the cluster is kept."""
    built = images.load()
    releases.install(built)
    yield Release(cluster, run.release(), run.values(), images.settings_of(built)).installed()
    if not pytestconfig.getoption("--ends"):
        releases.install(built)


@pytest.fixture
def release(deployed: Release) -> Release:
    """The platform, reset to the state after `make deploy`."""
    deployed.serve()
    return deployed
