"""Options, tiers and a database for tests on a running cluster."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack.postgres import Postgres
from support.kubernetes import Cluster
from support.projects import Writer
from support.releases import Release

ESSENTIAL = {"test_pinning", "test_rollouts", "test_disruptions", "test_services"}
"""Modules that CI runs on each change; all other modules are nightly."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rounds 10` repeats upgrades and load profiles ten times.

    `--measure 5` scales up and down five times with EndpointSlices and with DNS. `--random 3600`
    injects node faults for an hour. `--whole-periods` uses production periods for autoscalers.
    `--ends` is for clusters deleted afterwards.
    """
    parser.addoption(
        "--rounds", type=int, default=1, metavar="N", help="upgrades and load profiles"
    )
    parser.addoption("--measure", type=int, default=0, metavar="N", help="scalings of each way")
    parser.addoption("--random", type=float, default=300, metavar="SECONDS", help="random faults")
    parser.addoption("--whole-periods", action="store_true", help="autoscaling as slow as in use")
    parser.addoption("--ends", action="store_true", help="leave nothing deployed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "measured" in metafunc.fixturenames:
        rounds = metafunc.config.getoption("measure")
        ways = ["eds"] * (rounds or 1) + ["dns"] * rounds
        metafunc.parametrize("measured", ways, ids=lambda way: way)
    if "round" in metafunc.fixturenames:
        metafunc.parametrize("round", range(metafunc.config.getoption("rounds")))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "e2e" and item.path.stem not in ESSENTIAL:
            item.add_marker(pytest.mark.nightly)


NAME = "test-projects"
"""Name of the Secrets, and of the Service that refers to PostgreSQL."""


def address_towards(node: str) -> str:
    """This machine's address as seen from a node and its pods."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))
        return probe.getsockname()[0]


def objects(postgres: Postgres, writer: Writer) -> list[dict]:
    """Objects that the release refers to; the Service points outside the cluster."""
    settings = postgres.settings
    port = {"name": "postgres", "protocol": "TCP", "port": settings.port}
    secret = {
        "password": postgres.password_file.read_text(),
        "ca.crt": postgres.ca_file.read_text(),
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
    listed = {"apiVersion": "v1", "kind": "List", "items": made}
    cluster.kubectl("apply", "--filename", "-", stdin=json.dumps(listed))


@pytest.fixture
def database(
    new_postgres: Callable[..., Postgres], release: Release, tmp_path: Path
) -> Iterator[tuple[Postgres, Writer, list[str]]]:
    """Starts PostgreSQL with TLS on this machine, reachable from pods; yields the release's
    settings with a token.
    """
    node = urlsplit(release.gateway).hostname
    server = new_postgres(tls=True, address=address_towards(node), names=[NAME])
    writer = Writer.new(tmp_path)
    apply(release.cluster, objects(server, writer))
    settings = server.settings
    url = f"postgres://corelane@{NAME}:{settings.port}/corelane?sslmode=require"
    yield (
        server,
        writer,
        [
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
        ],
    )
    # The next test deploys another release; its replicas have no database before that.
    for kind in ("secret", "service", "endpointslice"):
        release.cluster.kubectl("delete", kind, NAME, "--ignore-not-found")
