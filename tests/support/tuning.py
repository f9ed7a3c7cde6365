"""Node tuning as a Helm release in its own namespace.

Fixture: `tuning`, removed afterwards with all its changes.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy import images
from stack import REPOSITORY, eventually
from stack.http import ask
from support.kubernetes import COMMAND, PAUSE, ROLL_OUT, Cluster
from tools.resolve import tool

CHART = REPOSITORY / "charts" / "node-tuning"
NAMESPACE = "corelane-nodes"
RELEASE = "nodes"
NAME = "nodes-node-tuning"
PORT = 9905

MACHINE = (
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/nr_open",
    "/proc/sys/net/core",
    "/proc/sys/net/ipv4",
    "/proc/sys/net/netfilter",
    "/proc/irq",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/class/net/lo/queues",
)
"""Files that tests must not change."""

MOVING = ("nf_conntrack_count", "spurious", "effective_affinity", "effective_affinity_list")

OF_DEVICES = ("/conf/", "/neigh/")
"""Sysctls that come and go with network devices."""

VALUES = {
    "global": {"registry": "docker.io/library"},
    "image": {"pullPolicy": "Never"},
    "minReadySeconds": 1,
    "interval": "1s",
    "cpu": "0",
}


@dataclass(frozen=True)
class Tuning:
    cluster: Cluster
    tag: str

    def helm(self, *arguments: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [tool("helm"), "--namespace", NAMESPACE, *map(str, arguments)],
            env=self.cluster.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND,
            check=False,
        )
        words = f"helm {arguments}: {result.stdout}{result.stderr}"
        assert not check or result.returncode == 0, words
        return result

    def install(
        self, *, check: bool = True, patience: float = ROLL_OUT, **values: object
    ) -> subprocess.CompletedProcess[str]:
        """Waits for all agents."""
        given = [f"{key}={json.dumps(value)}" for key, value in {**VALUES, **values}.items()]
        arguments: list[str | Path] = ["upgrade", "--install", RELEASE, CHART, "--reset-values"]
        for setting in given:
            arguments += ["--set-json", setting]
        arguments += ["--set-string", f"image.tag={self.tag}"]
        arguments += ["--wait", "--timeout", f"{patience:.0f}s"]
        return self.helm(*arguments, check=check)

    def uninstall(self) -> None:
        """Waits until all agents have exited, after restoring their nodes."""
        self.helm("uninstall", RELEASE, "--wait", "--timeout", f"{ROLL_OUT:.0f}s")
        self.wait(lambda: not self.pods(), "no agents")

    def agent(self, node: str) -> str:
        addresses = self.cluster.get("node", node)["status"]["addresses"]
        ip = next(each["address"] for each in addresses if each["type"] == "InternalIP")
        return f"http://{ip}:{PORT}"

    def audit(self, node: str) -> dict[tuple[str, str], dict]:
        """Returns the results of the last pass by knob and target."""
        found = json.loads(ask(self.agent(node), "/audit.json").body)
        return {(row["name"], row["target"]): row for row in found["knobs"]}

    def proof(self, node: str) -> dict:
        """An agent's findings; empty until pods are listed."""
        reply = ask(self.agent(node), "/proof.json")
        return json.loads(reply.body) if reply.status == 200 else {"pods": []}

    def test(self) -> tuple[bool, str]:
        """Result and output of `helm test`."""
        result = self.helm("test", RELEASE, "--timeout", "60s", check=False)
        if result.returncode == 0:
            return True, ""
        said = self.cluster.kubectl("logs", f"{NAME}-test-proof", check=False)
        return False, f"{result.stdout}{result.stderr}{said.stdout}"

    def metrics(self, node: str) -> str:
        return ask(self.agent(node), "/metrics").body.decode()

    def pods(self) -> dict[str, dict]:
        selector = "app.kubernetes.io/name=corelane-node-tuning"
        pods = self.cluster.items("pods", "--selector", selector)
        return {pod["spec"]["nodeName"]: pod for pod in pods}

    def events(self, node: str) -> set[str]:
        everywhere = Cluster(self.cluster.kubeconfig, "default")
        found = everywhere.items("events", "--field-selector", f"involvedObject.name={node}")
        return {event["reason"] for event in found}

    def wait(self, condition: object, what: str) -> None:
        eventually(condition, what, patience=ROLL_OUT, pause=PAUSE)


def inside(node: str, *words: str) -> str:
    """Runs a command in a node's network and mount namespaces."""
    argv = [sys.executable, REPOSITORY / "hack" / "cluster", "enter", node, *words]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=COMMAND, check=False)
    assert result.returncode == 0, f"{node}: {words}: {result.stderr}"
    return result.stdout


def machine() -> dict[str, bytes]:
    """Everything agents could change here."""
    found = {}
    for place in map(Path, MACHINE):
        files = place.rglob("*") if place.is_dir() else [place]
        for file in files:
            moves = file.name in MOVING or any(part in str(file) for part in OF_DEVICES)
            if moves or not file.is_file():
                continue
            # Some files are write-only or missing.
            with suppress(OSError):
                found[str(file)] = file.read_bytes()
    return found


@pytest.fixture(scope="session")
def tuner_tag(cluster: Cluster) -> str:
    """Tag of this tree's agent on the nodes."""
    del cluster
    return images.load_as("node-tuner", "")


@pytest.fixture(scope="module")
def agents_namespace(cluster: Cluster, tuner_tag: str) -> Iterator[Tuning]:
    """Shared by the module, because deletion is slow."""
    with namespace_for_agents(cluster, tuner_tag) as tuning:
        yield tuning


@pytest.fixture
def tuning(agents_namespace: Tuning) -> Iterator[Tuning]:
    """Node tuning that has not been installed yet. At the end, the machine must be unchanged."""
    with undone(agents_namespace):
        yield agents_namespace


@contextmanager
def namespace_for_agents(cluster: Cluster, tag: str) -> Iterator[Tuning]:
    """Yields a privileged namespace, which is cleaned up at the end."""
    own = Cluster(cluster.kubeconfig, NAMESPACE)
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": labels},
    }
    own.kubectl("apply", "--filename", "-", stdin=json.dumps(namespace))
    tuning = Tuning(own, tag)
    try:
        with undone(tuning):
            yield tuning
    finally:
        own.kubectl("delete", "namespace", NAMESPACE)


@contextmanager
def undone(tuning: Tuning) -> Iterator[None]:
    """Uninstalls everything from this context, with its changes."""
    before = machine()
    try:
        yield
    finally:
        if tuning.helm("status", RELEASE, check=False).returncode == 0:
            tuning.uninstall()
    assert machine() == before
