"""The quiet period before all drills: a healthy platform under load, on which no alert may fire."""

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from dashboards.drill.place import Place
from dashboards.drill.watch import NAMESPACE, Watch
from dashboards.live import node
from dashboards.live.options import Options
from dashboards.live.platform import Platform
from dashboards.live.stage import stage as live_stage
from support.client import Client
from support.load import Load

NAME = "calm"
"""The namespace of the platform."""

LASTS = 90.0

BEAT = 3.0
"""Seconds between two changes in the API server, so that the gateway's agent gets updates: without changes the
API server answers once a minute, which the factor does not divide."""


@dataclass(frozen=True)
class Calm:
    """The result."""

    seconds: float
    fired: tuple[str, ...]
    replies: int
    failures: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Whether an alert fired, a request failed, or there was no load."""
        return bool(self.fired or self.failures or not self.replies)


@contextmanager
def whole_platform(watch: Watch) -> Iterator[Platform]:
    """A platform with all parts, scraped by the watch."""
    # Its own Prometheus is a target as well, and evaluates no rules.
    with live_stage(Options(name=NAME, rules=(), interval=5.0)) as platform:
        place = Place(watch, NAME, watch.folder)
        beats = itertools.count()
        with place.again(lambda: _beat(platform, next(beats)), pause=BEAT):
            for job, pod, port in _targets(platform):
                place.scraped(job, port, pod, node=node.NAME)
            yield platform


def run(watch: Watch, platform: Platform) -> Calm:
    """Loads the platform for a while; no alert may fire."""
    with ExitStack() as stack:
        loads = [stack.enter_context(load) for load in _loads(platform)]
        begun = time.monotonic()
        watch.within(lambda: False, LASTS)
        seconds = time.monotonic() - begun
        found = {
            *Place(watch, NAME, watch.folder).fired(),
            *Place(watch, NAMESPACE, watch.folder).fired(),
        }
    replies = sum(load.total for load in loads)
    failures = [failure for load in loads for failure in load.failures]
    return Calm(seconds, tuple(sorted(found)), replies, tuple(failures))


def _targets(platform: Platform) -> Iterator[tuple[str, str, int]]:
    plan = platform.plan
    for name, server in platform.servers.items():
        yield "server", name, server.replica.admin_port
    yield "gateway", "gateway", plan.topology.gateway_stats_port
    yield "gateway-agent", "gateway", plan.gateway_agent
    yield "node-tuning", "node-tuner", plan.node_tuning
    yield "prometheus", "prometheus", plan.topology.prometheus_port


def _loads(platform: Platform) -> Iterator[Load]:
    for path, rate in (
        ("/hello", 40),
        ("/div/4", 20),
        ("/static/4k.txt", 10),
        ("/projects?limit=5", 5),
    ):
        yield Load(platform.gateway, path, clients=2, rate=rate)
    trusting = partial(Client, authority=platform.run / "tls.crt")
    yield Load(platform.servers["edge-0"].url, clients=2, rate=10, connect=trusting)


def _beat(platform: Platform, number: int) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{NAME}/endpointslices/server-0"
    platform.cluster.api.change(path, {"metadata": {"annotations": {"beat": str(number)}}})
