"""Under constant load, nodes are lost, isolated or rebooted, or they run out of disk space.

Needs virtual machines: `make cluster-up deploy CLUSTER=vm`, then `make e2e CLUSTER=vm TESTS="-k
node_faults -s"`, which prints a row per fault. `--random 3600` injects random faults for an hour.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest

from cluster import settings
from cluster.faults import Faulty
from stack import eventually
from stack.load import Load
from stack.postgres import Postgres
from support.kubernetes import Cluster, Pod
from support.projects import Saves, Writer
from support.releases import Release

pytestmark = pytest.mark.skipif(settings.kind() != "vm", reason="nodes are no machines")

RATE = 20.0
CLIENTS = 8
SLOW = 2.0
"""If a response takes at least this many seconds, its request was first sent to an unresponsive
replica.
"""

RECOVERY = 900.0
"""Seconds until a returned node serves again; emulated CPUs boot in one to two minutes."""

SEED = 20261127


@dataclass
class Site:
    """A cluster, and a load through one gateway pod."""

    cluster: Cluster
    nodes: Faulty = field(default_factory=lambda: Faulty(settings.load()))
    gateways: dict[str, Pod] = field(default_factory=dict)

    replicas: dict[str, Pod] = field(default_factory=dict)
    used: str = ""

    def __post_init__(self) -> None:
        self.spread()

    def spread(self) -> None:
        """Spreads each app's pods across both nodes, but does not move the gateway in use."""
        self.gateways, self.replicas = self._spread("gateway"), self._spread("server")

    def _spread(self, app: str) -> dict[str, Pod]:
        def two() -> list[Pod]:
            eventually(
                lambda: len(self.cluster.ready_pods(app)) == 2, app, patience=RECOVERY, pause=1.0
            )
            return self.cluster.ready_pods(app)

        found = two()
        while len({pod.node for pod in found}) < 2:
            goes = next(pod for pod in found if f"/{pod.ip}:" not in self.used)
            # Keeps the scheduler from reusing the node.
            self.cluster.kubectl("cordon", goes.node)
            self.cluster.kubectl("delete", "pod", goes.name)
            found = two()
            self.cluster.kubectl("uncordon", goes.node)
        return {pod.node: pod for pod in found}

    def use(self, node: str) -> str:
        """Switches to the gateway pod on this node; returns its URL."""
        self.used = f"http://{self.gateways[node].ip}:8080"
        return self.used

    def other(self, node: str) -> str:
        (other,) = set(self.replicas) - {node}
        return other

    def is_whole(self) -> bool:
        replicas = {pod.node for pod in self.cluster.ready_pods("server")}
        return replicas == set(self.replicas) and len(self.cluster.ready_pods("gateway")) == 2

    def delete_what_began_ahead(self) -> None:
        """Deletes and prints pods whose containers started while the node's clock was ahead.

        The kubelet would not probe them for an hour: pkg/kubelet/prober/worker.go.
        """
        latest = time.strftime("%FT%TZ", time.gmtime(time.time() + 300))
        for pod in self.cluster.items("pods"):
            status = pod["status"]
            # A gateway's agent is a sidecar, hence an init container.
            containers = status.get("containerStatuses", []) + status.get(
                "initContainerStatuses", []
            )
            starts = [each["state"].get("running", {}).get("startedAt", "") for each in containers]
            if max(starts, default="") > latest and "deletionTimestamp" not in pod["metadata"]:
                name = pod["metadata"]["name"]
                self.cluster.kubectl("delete", "pod", name, "--wait=false")
                print(f"\n{name} started ahead of the time, and is deleted by hand", end="")

    def recovered(self, load: Load) -> None:
        """Waits for all pods and for traffic on both replicas."""

        def whole() -> bool:
            self.delete_what_began_ahead()
            return self.is_whole()

        eventually(whole, "all pods", patience=RECOVERY, pause=1.0)
        # Evicted pods are kept by Kubernetes.
        self.cluster.kubectl("delete", "pods", "--field-selector=status.phase=Failed")
        for pod in self.cluster.ready_pods("server"):
            answered(load, 20, pod.name)
        self.spread()

    @contextmanager
    def without_power(self, node: str) -> Iterator[None]:
        self.nodes.kill(node)
        try:
            yield
        finally:
            self.nodes.start(node)

    @contextmanager
    def booted(self, node: str) -> Iterator[None]:
        """Reboots without a clean shutdown."""
        self.nodes.reboot(node)
        yield

    @contextmanager
    def without_dns(self, _node: str) -> Iterator[None]:
        self.scale_dns(0)
        try:
            yield
        finally:
            self.scale_dns(1)

    def scale_dns(self, replicas: int) -> None:
        self.cluster.kubectl(
            "scale", "deployment/coredns", f"--replicas={replicas}", "--namespace=kube-system"
        )

    @contextmanager
    def suffering(self, node: str, fault: str, undo: str) -> Iterator[None]:
        """Applies a fault to a node for the duration of the block."""
        self.nodes.run(node, fault)
        try:
            yield
        finally:
            self.nodes.run(node, undo)


def answered(load: Load, more: int, replica: str | None = None) -> None:
    def count() -> int:
        return load.replies[replica] if replica else load.total

    wanted = count() + more
    eventually(lambda: count() >= wanted, f"replies of {replica or 'any'}", patience=RECOVERY)


def lines(fault: str, undo: str) -> Callable[[Site, str], AbstractContextManager[None]]:
    return lambda site, node: site.suffering(node, fault, undo)


Fault = tuple[float, Callable[[Site, str], AbstractContextManager[None]]]

# On a full disk the kubelet removes images and pods.
FILL = "fallocate -l $(df --output=avail -B1 /disk | tail -1) /disk/full || true"

FAULTS: dict[str, Fault] = {
    "power": (30, Site.without_power),
    "boot": (30, Site.booted),
    "cut-off": (10, lambda site, node: site.nodes.partitioned(node)),
    "loss": (
        30,
        lines("tc qdisc add dev eth0 root netem loss 5% delay 20ms", "tc qdisc del dev eth0 root"),
    ),
    "clock": (30, lines("date -s '+1 hour'", "date -s '-1 hour'")),
    "disk": (60, lines(FILL, "rm -f /disk/full")),
    "dns": (60, Site.without_dns),
    "api": (60, lambda site, _node: site.nodes.without_api()),
}
"""Fault functions and their duration in seconds."""

LONG: dict[str, Fault] = {
    "cut-off-5-min": (300, FAULTS["cut-off"][1]),
    "api-10-min": (600, FAULTS["api"][1]),
}


def happens(site: Site, load: Load, name: str, node: str) -> None:
    """Injects a fault, waits until both nodes serve again, and prints the effect on clients."""
    seconds, make = (FAULTS | LONG)[name]
    total, failures, began = load.total, len(load.failures), time.monotonic()
    with make(site, node):
        end = began + seconds
        eventually(lambda: time.monotonic() > end, patience=seconds + 60, pause=0.2)
        answered(load, CLIENTS)
        ended = time.monotonic()
    site.recovered(load)
    recovered = time.monotonic() - ended
    seen = [(asked - began, took) for asked, took in load.times if began <= asked < ended]
    slow = [asked for asked, took in seen if took > SLOW]
    failed = len(load.failures) - failures
    print(
        f"\n| {name} | {ended - began:.0f} s | {load.total - total} | {failed} | {max((took for _, took in seen), default=0):.2f} s "
        f"| {len(slow)}, the last sent after {max(slow, default=0):.1f} s | {recovered:.0f} s |",
        end="",
    )
    # One in-flight request per client.
    assert failed <= CLIENTS, load.failures[:10]


@pytest.mark.parametrize("name", FAULTS | LONG)
def test_idempotent_requests_outlive(release: Release, name: str) -> None:
    site = Site(release.cluster)
    node, other = site.gateways
    with Load(site.use(node), clients=CLIENTS, rate=RATE) as load:
        for pod in site.replicas.values():
            load.wait_for(20, pod.name)
        happens(site, load, name, other)


@pytest.mark.parametrize("name", ["power", "cut-off"])
def test_a_gateway_on_a_node_that_is_lost(release: Release, name: str) -> None:
    """New connections use the other gateway, as behind a load balancer."""
    site = Site(release.cluster)
    node, other = site.gateways
    with Load(site.use(node), clients=CLIENTS, rate=RATE) as load:
        load.wait_for(20)
        load.url = site.use(other)
        happens(site, load, name, node)


def test_faults_at_random(
    release: Release,
    database: tuple[Postgres, Writer, list[str]],
    request: pytest.FixtureRequest,
) -> None:
    _, writer, kept = database
    release.upgrade(*kept, "service.rollout.maxUnavailable=2")
    site, source = Site(release.cluster), random.Random(SEED)
    saving = Saves(lambda: site.used, writer, clients=2, pause=0.5, seed=SEED)
    end = time.monotonic() + request.config.getoption("random")
    site.use(next(iter(site.gateways)))
    with saving as saves:
        while time.monotonic() < end:
            node = source.choice(sorted(site.gateways))
            # Old connections may lead to the failed node.
            with Load(site.use(site.other(node)), clients=CLIENTS, rate=RATE) as load:
                saves.more(5)
                happens(site, load, source.choice(sorted(FAULTS)), node)
        saves.more(5)
    print(f"\n{saves.acknowledged} saves acknowledged, {saves.refused} refused", end="")
    saves.check(release)
