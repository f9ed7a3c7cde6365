"""Nodes that are lost, cut off, booted, or out of disk, under a constant load of idempotent requests.

Nodes are machines here: `make cluster-up deploy CLUSTER=vm`, then `make e2e CLUSTER=vm TESTS="-k node_faults -s"`, which
prints a row for each fault. The load goes to the gateway's pod on the node that stays.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from cluster import settings
from cluster.faults import Faulty
from support import eventually
from support.load import Load
from support.releases import Release

pytestmark = pytest.mark.skipif(settings.kind() != "vm", reason="nodes are no machines")

RATE = 20.0
CLIENTS = 8
RECOVERY = 900.0
"""Seconds until a node that came back serves again. Emulated CPUs boot in one to two minutes."""


@dataclass
class Fault:
    """What clients saw of a fault."""

    load: Load
    began: float
    node: str
    """The node that has it: not that of the gateway's pod."""


@pytest.fixture(scope="module")
def nodes() -> Faulty:
    """The machines."""
    return Faulty(settings.load())


@contextmanager
def loaded(release: Release, name: str) -> Iterator[Fault]:
    """A load through the gateway's pod that stays; prints what it saw, and ends when both replicas serve again."""
    cluster = release.cluster
    gateway = cluster.wait_for_pods("gateway", 2)[0]
    replicas = {pod.node: pod.name for pod in cluster.wait_for_pods("server", 2)}
    (other,) = set(replicas) - {gateway.node}
    with Load(f"http://{gateway.ip}:8080", clients=CLIENTS, rate=RATE) as load:
        for replica in replicas.values():
            load.wait_for(20, replica)
        fault = Fault(load, time.monotonic(), other)
        yield fault
        seconds = time.monotonic() - fault.began
        eventually(
            lambda: {pod.node for pod in cluster.ready_pods("server")} == set(replicas),
            "both replicas",
            patience=RECOVERY,
            pause=1.0,
        )
        for pod in cluster.ready_pods("server"):
            load.wait_for(20, pod.name, patience=RECOVERY)
    slowest = max(load.seconds)
    print(
        f"\n| {name} | {seconds:.0f} s | {load.total} | {len(load.failures)} | {slowest:.2f} s "
        f"| {time.monotonic() - fault.began - seconds:.0f} s |",
        end="",
    )
    # Those in flight on the lost node, one per client.
    assert len(load.failures) <= CLIENTS, load.failures[:10]


def for_seconds(seconds: float, load: Load) -> None:
    """A fault lasts, and the load goes on."""
    end = time.monotonic() + seconds
    eventually(lambda: time.monotonic() > end, patience=seconds + 60, pause=0.2)
    load.wait_for(CLIENTS)


@contextmanager
def suffering(nodes: Faulty, node: str, fault: str, undo: str) -> Iterator[None]:
    """A node has a fault for a while; later tests have it without."""
    nodes.run(node, fault)
    try:
        yield
    finally:
        nodes.run(node, undo)


def test_a_node_without_power(release: Release, nodes: Faulty) -> None:
    with loaded(release, "power lost") as fault:
        nodes.kill(fault.node)
        try:
            for_seconds(30, fault.load)
        finally:
            nodes.start(fault.node)


@pytest.mark.parametrize("seconds", [10, 300])
def test_a_node_that_is_cut_off(release: Release, nodes: Faulty, seconds: int) -> None:
    with (
        loaded(release, f"cut off for {seconds} s") as fault,
        nodes.partitioned(fault.node),
    ):
        for_seconds(seconds, fault.load)


def test_a_node_that_boots(release: Release, nodes: Faulty) -> None:
    with loaded(release, "booted") as fault:
        nodes.reboot(fault.node)
        for_seconds(30, fault.load)


def test_an_api_server_that_is_away(release: Release, nodes: Faulty) -> None:
    with loaded(release, "API server away") as fault, nodes.without_api():
        for_seconds(120, fault.load)


def test_a_node_whose_disk_is_full(release: Release, nodes: Faulty) -> None:
    """The kubelet removes images and pods until there is room."""
    with loaded(release, "disk full") as fault:
        fill = "fallocate -l $(df --output=avail -B1 /disk | tail -1) /disk/full || true"
        with suffering(nodes, fault.node, fill, "rm -f /disk/full"):
            for_seconds(60, fault.load)


@pytest.mark.parametrize(
    ("fault", "undo"),
    [
        ("tc qdisc add dev eth0 root netem loss 5% delay 20ms", "tc qdisc del dev eth0 root"),
        ("date -s '+1 hour'", "date -s '-1 hour'"),
    ],
    ids=["loss", "clock"],
)
def test_a_node_whose(
    release: Release, nodes: Faulty, fault: str, undo: str, request: pytest.FixtureRequest
) -> None:
    with (
        loaded(release, request.node.callspec.id) as seen,
        suffering(nodes, seen.node, fault, undo),
    ):
        for_seconds(30, seen.load)
