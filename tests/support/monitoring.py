"""Standalone monitoring next to the platform.

Fixture: `monitored`, with agents on the nodes, shared within a module.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

import pytest

from cluster import settings as cluster_settings
from deploy import images
from stack.http import ask
from stack.http_server import Request, serving
from support.kubernetes import Cluster
from support.releases import Release
from support.tuning import NAMESPACE as NODES
from support.tuning import Tuning, namespace_for_agents

KNOBS = {"net.netfilter.nf_conntrack_tcp_timeout_time_wait": "30"}
"""A per-node network setting that is safe to change."""

PORTS = {"prometheus": 9090, "alertmanager": 9093}


@dataclass(frozen=True)
class Api:
    """HTTP API of a component, bypassing its NetworkPolicy."""

    url: str

    def get(self, path: str) -> dict | list:
        reply = ask(self.url, path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def post(self, path: str, content: object) -> None:
        headers = {"Content-Type": "application/json"}
        reply = ask(self.url, path, "POST", body=json.dumps(content).encode(), headers=headers)
        assert reply.status == 200, reply.body

    def data(self, path: str) -> dict | list:
        return self.get(path)["data"]

    def query(self, expression: str) -> list[dict]:
        return self.data(f"/api/v1/query?query={quote(expression)}")["result"]


@dataclass
class Webhook:
    """Receives Alertmanager's notifications from the cluster."""

    url: str
    alerts: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Monitored:
    release: Release
    tuning: Tuning
    webhook: Webhook

    @property
    def cluster(self) -> Cluster:
        return self.release.cluster

    @contextmanager
    def api(self, part: str) -> Iterator[Api]:
        pod = f"{self.release.name}-monitoring-{part}-0"
        with self.cluster.forwarded(pod, PORTS[part]) as url:
            yield Api(url)


@pytest.fixture(scope="session")
def monitoring_images(cluster: Cluster) -> tuple[str, ...]:
    """Loads the images; returns chart values."""
    del cluster
    built = {name: images.build(name) for name in PORTS}
    images.bring([image.archive for image in built.values()])
    return tuple(images.settings_of(built))


@pytest.fixture(scope="module")
def monitored(
    deployed: Release, tuner_tag: str, monitoring_images: tuple[str, ...]
) -> Iterator[Monitored]:
    """All targets, some load, and a two-second scrape interval."""
    cluster = deployed.cluster
    with namespace_for_agents(cluster, tuner_tag) as tuning, webhook() as received:
        tuning.install(mode="apply", profile="custom", interfaces=["eth0"], knobs=KNOBS)
        deployed.serve(
            "monitoring.enabled=true",
            "monitoring.scrape.interval=2s",
            "monitoring.scrape.timeout=2s",
            f"monitoring.namespaces={{{cluster.namespace},{NODES}}}",
            f"monitoring.alertmanager.webhook={received.url}",
            strings=monitoring_images,
        )
        # Keeps request counters moving.
        with deployed.load(clients=2, rate=20.0):
            yield Monitored(deployed, tuning, received)
    # The next test or the final cleanup upgrades again.


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Reachable from pods."""

    def answer(request: Request) -> None:
        received.alerts += json.loads(request.body())["alerts"]
        request.reply()

    with serving(answer, str(cluster_settings.load().network[1])) as url:
        received = Webhook(f"{url}/")
        yield received
