"""Monitoring in mode standalone on a cluster, next to the platform.

Fixture: `monitored` is the platform's release with monitoring and with agents on the nodes, for a module of
tests.
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
"""A setting of the nodes' own network, which anyone may change by hand."""

PORTS = {"prometheus": 9090, "alertmanager": 9093}


@dataclass(frozen=True)
class Api:
    """The HTTP API of a part in the cluster, reached without its NetworkPolicy."""

    url: str

    def get(self, path: str) -> dict | list:
        """Returns the response to a path."""
        reply = ask(self.url, path)
        assert reply.status == 200, reply.body
        return json.loads(reply.body)

    def post(self, path: str, content: object) -> None:
        """Sends JSON to a path."""
        headers = {"Content-Type": "application/json"}
        reply = ask(self.url, path, "POST", body=json.dumps(content).encode(), headers=headers)
        assert reply.status == 200, reply.body

    def data(self, path: str) -> dict | list:
        """Returns Prometheus' response to a path."""
        return self.get(path)["data"]

    def query(self, expression: str) -> list[dict]:
        """Returns the current series of an expression."""
        return self.data(f"/api/v1/query?query={quote(expression)}")["result"]


@dataclass
class Webhook:
    """The receiver of Alertmanager's notifications: a server on this machine that pods can reach."""

    url: str
    alerts: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Monitored:
    """The platform with its monitoring."""

    release: Release
    tuning: Tuning
    webhook: Webhook

    @property
    def cluster(self) -> Cluster:
        """Returns the cluster of the release."""
        return self.release.cluster

    @contextmanager
    def api(self, part: str) -> Iterator[Api]:
        """Returns the API of Prometheus or of Alertmanager."""
        pod = f"{self.release.name}-monitoring-{part}-0"
        with self.cluster.forwarded(pod, PORTS[part]) as url:
            yield Api(url)


@pytest.fixture(scope="session")
def monitoring_images(cluster: Cluster) -> tuple[str, ...]:
    """Loads the monitoring images into the nodes; returns the values that name them."""
    del cluster
    built = {name: images.build(name) for name in PORTS}
    images.bring([image.archive for image in built.values()])
    return tuple(images.settings_of(built))


@pytest.fixture(scope="module")
def monitored(
    deployed: Release, tuner_tag: str, monitoring_images: tuple[str, ...]
) -> Iterator[Monitored]:
    """Yields a platform with everything that can be scraped, under some load, and a Prometheus that scrapes it
    every two seconds.
    """
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
        # Constant traffic, so that request counters have data.
        with deployed.load(clients=2, rate=20.0):
            yield Monitored(deployed, tuning, received)
    # The next test, or the end of the run, upgrades to other values.


@contextmanager
def webhook() -> Iterator[Webhook]:
    """Starts a webhook at the address by which pods reach this machine."""

    def answer(request: Request) -> None:
        received.alerts += json.loads(request.body())["alerts"]
        request.reply()

    with serving(answer, str(cluster_settings.load().network[1])) as url:
        received = Webhook(f"{url}/")
        yield received
