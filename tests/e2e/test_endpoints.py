"""Tests how fast the gateway notices replicas, and how it copes without the API server.

`make e2e TESTS="-k measured --measure 5 -s"` prints the figures for gateway/endpoints.md.
"""

import os
import signal
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster import records, settings
from stack import eventually
from support.kubernetes import PAUSE, ROLL_OUT, Cluster
from support.pinning import processes_of
from support.releases import Release

TIMES: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
"""Seconds from the API server's report to the effect for clients, per discovery method."""


class Conditions:
    """Times at which the API server reported each condition of a replica, from a watch of the
    slices."""

    def __init__(self) -> None:
        self.ready: dict[str, float] = {}
        self.ending: dict[str, float] = {}

    def take(self, slice_: dict) -> None:
        now = time.monotonic()
        for endpoint in slice_.get("endpoints") or []:
            name = endpoint["targetRef"]["name"]
            conditions = endpoint["conditions"]
            if conditions.get("ready"):
                self.ready.setdefault(name, now)
            if conditions.get("terminating"):
                self.ending.setdefault(name, now)


@contextmanager
def conditions(cluster: Cluster, service: str) -> Iterator[Conditions]:
    seen = Conditions()
    chosen = f"--selector=kubernetes.io/service-name={service}"
    with cluster.watched(seen.take, "endpointslices", chosen):
        eventually(lambda: seen.ready, "the first slice")
        yield seen


def test_replicas_that_come_and_go_measured(release: Release, measured: str) -> None:
    found = f"gateway.upstream.discovery={measured}"
    release.upgrade(found, "service.replicas=1")
    (first,) = release.cluster.wait_for_pods("server", 1)
    release.cluster.wait_for_pods("gateway", 2)
    with (
        conditions(release.cluster, f"{release.name}-server") as said,
        release.load() as load,
    ):
        load.wait_for(100, first.name)
        release.upgrade(found, "service.replicas=2")
        pods = {pod.name for pod in release.cluster.wait_for_pods("server", 2)}
        (second,) = pods - {first.name}
        load.wait_for(100, second, patience=ROLL_OUT)
        release.upgrade(found, "service.replicas=1")
        (kept,) = release.cluster.wait_for_pods("server", 1)
        load.wait_for(200, kept.name)
        (gone,) = pods - {kept.name}
    assert not load.failures, load.failures[:10]
    TIMES[measured]["ready -> first request"].append(load.first[second] - said.ready[second])
    TIMES[measured]["ending -> last request"].append(load.last[gone] - said.ending[gone])
    # DNS may be cached for 30 s, whereas the agent watches the slices. Both methods are slower on a
    # busy machine.
    if measured == "eds":
        assert load.first[second] - said.ready[second] < 30
        assert load.last[gone] - said.ending[gone] < 30


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    yield
    for way, kinds in TIMES.items():
        for kind, seconds in kinds.items():
            middle = statistics.median(seconds)
            spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
            print(f"\n{way}  {kind}  median {middle:.3f} s  ({spread}, n={len(seconds)})", end="")


def test_the_agent_is_killed(release: Release) -> None:
    """Envoy keeps its endpoints, and the next agent takes over."""
    victim = release.cluster.ready_pods("gateway")[0]
    (agent,) = (each for each in processes_of(victim.uid) if each.name == "gateway-agent")
    with release.load() as load:
        load.wait_for(100)
        agent.kill()
        eventually(
            lambda: any(
                each.name == "gateway-agent" and each.pid != agent.pid
                for each in processes_of(victim.uid)
            ),
            "the next agent",
            patience=ROLL_OUT,
        )
        release.cluster.wait_for_pods("gateway", 2)
        load.wait_for(400)
    assert not load.failures, load.failures[:10]


@pytest.mark.skipif(settings.kind() != "local", reason="the API server is a process of others")
def test_an_api_server_that_is_away_for_a_minute(release: Release) -> None:
    """A stopped process neither answers nor rejects."""
    process = records.Record(settings.load().state).content["processes"]["control-kube-apiserver"][
        "pid"
    ]
    with release.load() as load:
        load.wait_for(100)
        os.kill(process, signal.SIGSTOP)
        try:
            begun = time.monotonic()
            eventually(lambda: time.monotonic() > begun + 60, patience=70, pause=1)
        finally:
            os.kill(process, signal.SIGCONT)
        load.wait_for(400)
        eventually(
            lambda: len(release.cluster.ready_pods("gateway")) == 2,
            "the API server's answer",
            patience=ROLL_OUT,
            pause=PAUSE,
        )
        load.wait_for(400)
    assert not load.failures, load.failures[:10]
