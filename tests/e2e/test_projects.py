"""Projects in PostgreSQL on the cluster: saved while the server is rolled out."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import eventually
from support.client import ask
from support.kubernetes import ROLL_OUT, Cluster
from support.postgres import Postgres
from support.projects import Saves, Writer
from support.releases import Release

NAME = "test-projects"
"""Of the Secrets, and of the Service that gives PostgreSQL a name in the cluster."""


def address_towards(node: str) -> str:
    """The address of this machine from which it reaches a node, and pods reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))
        return probe.getsockname()[0]


def objects(postgres: Postgres, writer: Writer) -> list[dict]:
    """What the release is told the names of; the Service leads out of the cluster."""
    settings = postgres.instance.settings
    port = {"name": "postgres", "protocol": "TCP", "port": settings.port}
    secret = {
        "password": postgres.instance.password_file.read_text(),
        "ca.crt": postgres.instance.ca_file.read_text(),
        "tokens": writer.file.read_text(),
    }
    labels = {"kubernetes.io/service-name": NAME}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "stringData": secret},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME},
            "spec": {"ports": [port]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": NAME, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [settings.address]}],
            "ports": [port],
        },
    ]


def apply(cluster: Cluster, made: list[dict]) -> None:
    """Makes objects, or changes them."""
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    cluster.kubectl("apply", "--filename", "-", stdin=json.dumps(listed))


@pytest.fixture
def postgres(
    new_postgres: Callable[..., Postgres], release: Release, tmp_path: Path
) -> Iterator[tuple[Postgres, Writer]]:
    """A PostgreSQL with TLS on this machine that the pods reach by a name, and a token."""
    node = urlsplit(release.gateway).hostname
    server = new_postgres(tls=True, address=address_towards(node), names=[NAME])
    writer = Writer.new(tmp_path)
    apply(release.cluster, objects(server, writer))
    yield server, writer
    # The next test's release is another one again; until then its replicas have no database.
    for kind in ("secret", "service", "endpointslice"):
        release.cluster.kubectl("delete", kind, NAME, "--ignore-not-found")


def test_no_acknowledged_save_is_lost_by_a_roll_out(
    release: Release, postgres: tuple[Postgres, Writer]
) -> None:
    server, writer = postgres
    settings = server.instance.settings
    url = f"postgres://corelane@{NAME}:{settings.port}/corelane?sslmode=require"
    kept = [
        "service.config.database.kind=postgres",
        f"service.config.database.url={url}",
        "service.config.database.password_file=/etc/projects/password",
        "service.config.database.ca_file=/etc/projects/ca.crt",
        "service.config.auth.tokens=/etc/projects/tokens",
        "service.volumes[0].name=projects",
        f"service.volumes[0].secret.secretName={NAME}",
        "service.volumeMounts[0].name=projects",
        "service.volumeMounts[0].mountPath=/etc/projects",
        f"service.networkPolicy.egress[0].ports[0].port={settings.port}",
    ]
    # Both at once, since nobody asks for projects yet.
    release.upgrade(*kept, "service.rollout.maxUnavailable=2")
    before = release.cluster.wait_for_pods("server", 2)
    eventually(lambda: ask(release.gateway, "/projects").status == 200, patience=ROLL_OUT)
    with Saves(lambda: release.gateway, writer) as saves:
        saves.more(50)
        release.upgrade(*kept, "service.config.limits.queue=77")
        after = release.cluster.wait_for_pods("server", 2)
        saves.more(50)
    assert not {pod.uid for pod in before} & {pod.uid for pod in after}
    saves.check(release)
    assert saves.refused == 0
    ssl = server.query("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)")
    assert ssl == [["t"]]
