"""The Gateway API conformance suite, with a release of the chart per Gateway.

The platform is removed first, because its replicas would use all CPUs.
"""

import json
import os
import platform
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cluster.images import ARCHITECTURES
from deploy import images, releases
from gateway.test_route_objects import GROUP, definitions
from images import archive, layer
from images.archive import Image
from stack import REPOSITORY, eventually
from stack.apiserver import PROGRAMS, Api
from stack.credentials import certificate
from stack.rendering import CHARTS, documents
from support import gateway_api
from support.kubernetes import Cluster
from tools import resolve
from tools.resolve import tool

__all__ = ["definitions"]

CLASS = "corelane"
REPORT = REPOSITORY / "docs/results/gateway-api-conformance.yaml"

ACCEPTANCE = 120.0
"""Seconds for the first agent to accept the class."""

VALUES = {"routeObjects": {"enabled": True}, "listener": {"address": "127.0.0.1"}}

CHART = {
    **VALUES,
    "listener": {},
    "global": {"registry": "docker.io/library"},
    "replicas": 1,
    "upstream": {"discovery": "eds"},
    "tls": {"enabled": True, "plain": "serve"},
    "resources": {
        "requests": {"cpu": "10m", "memory": "64Mi"},
        "limits": {"memory": "256Mi"},
    },
    "agent": {"cpu": "5m"},
    "shutdown": {"settle": "1s"},
}
"""Resources that are small enough for dozens of pods."""


@dataclass
class World:
    """A cluster with an operator that installs a gateway for each Gateway."""

    api: Api
    folder: Path
    namespace: str
    tag: str
    gateways: dict[str, tuple[ExitStack, Future]] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 250)))
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    @contextmanager
    def following(self) -> Iterator[None]:
        """Reconciles the suite's objects, starting with the class."""
        values = self.folder / "class.yaml"
        values.write_text(yaml.safe_dump(VALUES))
        (own,) = (it for it in documents("gateway", values=values) if it["kind"] == "GatewayClass")
        self.apply(self.namespace, own)
        stop = threading.Event()
        thread = threading.Thread(target=self._follow, args=(stop,))
        thread.start()
        try:
            # The class must be accepted before the suite starts.
            listener = {"name": "http", "protocol": "HTTP", "port": 80}
            spec = {"gatewayClassName": CLASS, "listeners": [listener]}
            kind = {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", "metadata": {"name": "first"}}
            self.apply(self.namespace, {**kind, "spec": spec})
            eventually(self._accepted, "an accepted class", patience=ACCEPTANCE, pause=0.5)
            yield
        finally:
            stop.set()
            thread.join()
            for uid in list(self.gateways):
                self._end(uid)
            self.pool.shutdown()

    def _accepted(self) -> bool:
        assert not self.failures, self.failures
        conditions = self.api.get("gatewayclass", CLASS)["status"]["conditions"]
        return conditions[0]["status"] == "True"

    def _follow(self, stop: threading.Event) -> None:
        while not stop.wait(0.5):
            found = {
                it["metadata"]["uid"]: it
                for it in self.all(f"gateways.{GROUP}")
                if it["spec"]["gatewayClassName"] == CLASS
            }
            for uid in found.keys() - self.gateways.keys():
                stack = ExitStack()
                self.gateways[uid] = (stack, self._beside(self.serve, found[uid], stack))
            for uid in self.gateways.keys() - found.keys():
                self._end(uid)

    def _end(self, uid: str) -> None:
        """Stops a Gateway's processes once all of them have started."""
        stack, work = self.gateways.pop(uid)
        self._beside(lambda: (wait([work]), stack.close()))

    def _beside(self, does: Callable, *arguments: object) -> Future:
        work = self.pool.submit(does, *arguments)
        work.add_done_callback(lambda it: it.exception() and self.failures.append(it.exception()))
        return work

    def all(self, kind: str) -> list[dict]:
        """Empty if the kind is not defined yet."""
        found = self.api.kubectl("get", kind, "--all-namespaces", "--output", "json")
        return json.loads(found.stdout)["items"] if found.returncode == 0 else []

    def apply(self, namespace: str, *objects: dict) -> None:
        text = yaml.safe_dump_all(objects)
        where = ("--namespace", namespace, "--filename", "-")
        done = self.api.kubectl("apply", "--server-side", *where, text=text)
        assert done.returncode == 0, done.stderr

    def serve(self, gateway: dict, stack: ExitStack) -> None:
        metadata, number = gateway["metadata"], next(self.numbers)
        namespace, name = metadata["namespace"], f"gateway-{number}"
        folder = self.folder / name
        folder.mkdir()
        chain, key = (file.read_text() for file in certificate(folder, "tls", "ec"))
        # These objects belong to the operator, not to the Gateways.
        secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
        secret |= {"metadata": {"name": name}, "stringData": {"tls.crt": chain, "tls.key": key}}
        self.apply(namespace, secret)
        objects = {
            **VALUES["routeObjects"],
            "createClass": False,
            "gateway": metadata["name"],
            "certificates": self._certificates(gateway),
        }
        image = {"tag": self.tag, "pullPolicy": "Never"}
        tls = {**CHART["tls"], "secret": name}
        values = {**CHART, "image": image, "routeObjects": objects, "tls": tls}
        file = folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        where = (name, "--namespace", namespace)
        stack.callback(self._helm, "uninstall", *where, "--ignore-not-found")
        self._helm("install", *where, CHARTS / "gateway", "--values", file)

    def _certificates(self, gateway: dict) -> list[dict]:
        """Secrets referenced by a Gateway, which its agent may read."""
        own = gateway["metadata"]["namespace"]
        found = [
            {"name": it["name"], "namespace": it.get("namespace", own)}
            for listener in gateway["spec"]["listeners"]
            for it in listener.get("tls", {}).get("certificateRefs", [])
            if it.get("kind", "Secret") == "Secret"
        ]
        return [it for number, it in enumerate(found) if it not in found[:number]]

    def _helm(self, *arguments: str | Path) -> None:
        done = self.api.helm(*arguments)
        assert done.returncode == 0, done.stderr


def bring(folder: Path) -> None:
    """Loads the suite's images. The echo server replaces them all, including CoreDNS, which is used
    for UDP only.
    """
    source = gateway_api.module("sigs.k8s.io/gateway-api/conformance")
    text = "".join(
        file.read_text() for it in ("base", "tests") for file in (source / it).glob("*.yaml")
    )
    archives = []
    for name, tag in sorted(set(re.findall(r"image: (registry\.k8s\.io/\S+):(\S+)", text))):
        image = Image(name, tag, ARCHITECTURES[platform.machine()], 0, entrypoint=("/echo",))
        file = folder / f"{name.rpartition('/')[2]}-{tag}.tar"
        archive.write(image, [[layer.program("/echo", tool("gateway-echo"))]], file)
        archives.append(file)
    images.bring(archives)


@pytest.fixture(scope="module")
def api(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Yields the cluster's API server without the platform, and cleans up afterwards."""
    named = releases.images_named()
    was = releases.uninstall()
    # Tools cache discovered APIs next to it.
    file = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    file.write_text(cluster.kubeconfig.read_text())
    try:
        yield Api(file, resolve.ensure(PROGRAMS))
        cluster.kubectl("delete", "namespace", "--selector", "gateway-conformance")
        cluster.kubectl("delete", "--filename", str(gateway_api.definitions()))
    finally:
        if was:
            releases.install(images.load(named))


@pytest.fixture
def world(api: Api, cluster: Cluster, definitions: None, tmp_path: Path) -> Iterator[World]:
    """The cluster with images and class in place."""
    built = images.build("gateway")
    images.bring([built.archive])
    bring(tmp_path)
    with cluster.restricted("gateway-conformance-first") as first:
        found = World(api, tmp_path, first.namespace, built.tag)
        with found.following():
            yield found
    assert not found.failures, found.failures


def test_the_profiles_of_http_and_grpc(world: World, tmp_path: Path) -> None:
    report = tmp_path / "report.yaml"
    flags = {
        "gateway-class": CLASS,
        "conformance-profiles": "GATEWAY-HTTP,GATEWAY-GRPC",
        "report-output": report,
        "organization": "corelane",
        "project": "corelane",
        "url": "https://example.invalid/corelane",
        "version": (REPOSITORY / "VERSION").read_text().strip(),
        "contact": "maintainers@example.invalid",
        "cleanup-base-resources": "false",
        "test.timeout": "40m",
        "test.v": "true",
    }
    argv = [tool("gateway-conformance"), *(f"-{key}={value}" for key, value in flags.items())]
    env = {**os.environ, "KUBECONFIG": str(world.api.kubeconfig)}
    with (tmp_path / "suite.log").open("wb") as log:
        subprocess.run(argv, stdout=log, stderr=log, env=env, check=False)
    found = yaml.safe_load(report.read_text())
    del found["date"]
    # The report is written before concurrent tests finish.
    failed = re.findall(r"--- FAIL: Conformance/(\w+) ", (tmp_path / "suite.log").read_text())
    found["failedTests"] = sorted(set(failed))
    found["profiles"].sort(key=lambda it: it["name"])
    report.write_text(yaml.safe_dump(found))
    assert not world.failures, world.failures
    assert found == yaml.safe_load(REPORT.read_text()), f"{report} differs from {REPORT}"
