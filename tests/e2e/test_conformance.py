"""The conformance tests of Gateway API with pods: each Gateway gets a release of the chart.

The platform is not deployed meanwhile: its replicas have all CPUs, and the pods of these tests request some.
"""

import platform
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from cluster.images import ARCHITECTURES
from deploy import images, releases
from gateway.test_conformance import (
    VALUES,
    World,
    definitions,
    test_the_profiles_of_http_and_grpc,
)
from images import archive, layer
from images.archive import Image
from stack.apiserver import PROGRAMS, Api
from stack.credentials import certificate
from stack.rendering import CHARTS
from support import gateway_api
from support.kubernetes import Cluster
from tools import resolve
from tools.resolve import tool

__all__ = ["definitions", "test_the_profiles_of_http_and_grpc"]

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
"""Dozens of such pods have room on the nodes."""


@dataclass
class Pods(World):
    """A whole cluster, on which an operator installs a gateway for each Gateway."""

    tag: str = field(kw_only=True)

    def serve(self, gateway: dict, stack: ExitStack) -> None:
        """Installs the chart beside the Gateway."""
        metadata, number = gateway["metadata"], next(self.numbers)
        namespace, name = metadata["namespace"], f"gateway-{number}"
        folder = self.folder / name
        folder.mkdir()
        chain, key = (file.read_text() for file in certificate(folder, "tls", "ec"))
        # Of the operator of the Gateways, for names that are none of theirs.
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
        """The Secrets that a Gateway names, which its agent may read then."""
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
    """Loads the images that the tests name into the nodes: all have the echo server, also that of CoreDNS, which only UDP asks."""
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
    """The API server of the cluster, which has no platform and afterwards nothing of the tests."""
    named = releases.images_named()
    was = releases.uninstall()
    # Beside it, tools keep what they learn.
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
    """The cluster with its images, and the class of the chart."""
    built = images.build("gateway")
    images.bring([built.archive])
    bring(tmp_path)
    with cluster.restricted("gateway-conformance-first") as first:
        found = Pods(api, tmp_path, first.namespace, tag=built.tag)
        with found.following():
            yield found
    assert not found.failures, found.failures
