"""The gateway chart in mode gatewayAPI, translated by the real Envoy Gateway and served by real Envoys."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stack import eventually
from stack.credentials import certificate
from stack.http import ask
from stack.ports import free_ports
from stack.rendering import documents, is_hook
from support.envoy_gateway import (
    HEALTH,
    NAMESPACE,
    Running,
    envoy_gateway,
    on_this_machine,
    replicas,
)

ADDRESSES = ["127.0.0.2", "127.0.0.3"]

COMMON = [
    "mode=gatewayAPI",
    HEALTH,
    # A process of this machine has no limit of its own in a cgroup.
    "overload.monitor=heap",
    "accessLog.percent=100",
]
"""Settings of all modules, which add their own as SETTINGS."""


@dataclass(frozen=True)
class Platform:
    """Everything that runs, and where its Envoy listens."""

    running: Running
    replicas: list[subprocess.Popen]
    objects: list[dict]
    url: str
    https: str


@pytest.fixture(scope="module")
def platform(
    request: pytest.FixtureRequest, binary: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Platform]:
    """Envoy Gateway with the objects of the chart, in front of two replicas."""
    folder = tmp_path_factory.mktemp("envoy-gateway")
    first = free_ports(4, "0.0.0.0")
    places = [f"service.port={first + 2}", f"service.httpsPort={first + 3}"]
    places += [f"upstream.dns.port={first}", f"upstream.dns.adminPort={first + 1}"]
    rendered = documents("gateway", *COMMON, *places, *request.module.SETTINGS)
    own = on_this_machine([each for each in rendered if not is_hook(each)], first)
    more = [replicas(ADDRESSES, first), _secret(folder)]
    url, https = f"http://127.0.0.1:{first + 2}", f"https://localhost:{first + 3}"
    with (
        _servers(binary, first) as servers,
        envoy_gateway([*own, *more], folder, url) as running,
    ):
        yield Platform(running, servers, own, url, https)


def _secret(folder: Path) -> dict:
    files = dict(zip(("tls.crt", "tls.key"), certificate(folder, "localhost", "ec"), strict=True))
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
    metadata = {"name": "certificate", "namespace": NAMESPACE}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    return {**kind, "metadata": metadata, "data": data}


@contextmanager
def _servers(binary: Path, port: int) -> Iterator[list[subprocess.Popen]]:
    """A replica at each address, with the same ports, as in pods."""
    started = []
    with ExitStack() as stack:
        for address in ADDRESSES:
            listen = ["--listen", f"{address}:{port}", "--admin.listen", f"{address}:{port + 1}"]
            argv = [binary, *listen, "--replica", address]
            process = stack.enter_context(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
            started.append(process)
            eventually(lambda url=f"http://{address}:{port + 1}": _ready(url))
        yield started


def _ready(admin: str) -> bool:
    try:
        return ask(admin, "/readyz").status == 200
    except OSError:
        return False
