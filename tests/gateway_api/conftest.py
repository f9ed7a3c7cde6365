"""The gateway chart in mode gatewayAPI, translated by the real Envoy Gateway and served by real Envoys."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import eventually
from support.certificates import certificate
from support.client import ask
from support.envoy_gateway import NAMESPACE, Running, envoy_gateway, on_this_machine, replicas
from support.ports import free_ports
from support.rendering import documents, is_hook

ADDRESSES = ["127.0.0.2", "127.0.0.3"]

COMMON = [
    "mode=gatewayAPI",
    # A process of this machine has no limit of its own in a cgroup.
    "overload.monitor=heap",
    "accessLog.percent=100",
]
"""Settings of all releases."""

RELEASES = {
    "plain": ["listener.http2.ping=0s", "upstream.timeout=2s"],
    "edge": [
        "tls.enabled=true",
        "tls.secret=certificate",
        "tls.minVersion=1.3",
        "http3.enabled=true",
        "rateLimit.enabled=true",
        "rateLimit.requests=5",
        "rateLimit.perClient.requests=3",
        "tracing.enabled=true",
        "tracing.host=127.0.0.1",
        "listener.trustedHops=1",
        "listener.escapedSlashes=redirect",
        "upstream.balancing.policy=load-aware",
        "upstream.balancing.slowStart.window=10s",
        "runtime.corelane\\.example=1",
    ],
    "behind": ["listener.proxyProtocol=true", "accessLog.percent=1"],
    "turns": ["upstream.balancing.policy=round-robin", "accessLog.enabled=false"],
}
"""Releases of the chart, by their name, and their own settings."""


@dataclass(frozen=True)
class Platform:
    """Everything that runs, and where each release listens."""

    running: Running
    objects: list[dict]
    urls: dict[str, str]
    https: dict[str, str]


@pytest.fixture(scope="session")
def platform(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """Envoy Gateway with all releases, in front of two replicas."""
    folder = tmp_path_factory.mktemp("envoy-gateway")
    first = free_ports(2 + 2 * len(RELEASES))
    objects, urls, https = [replicas(ADDRESSES, first), _secret(folder)], {}, {}
    for index, (name, settings) in enumerate(RELEASES.items()):
        port = first + 2 + 2 * index
        places = [f"service.port={port}", f"service.httpsPort={port + 1}"]
        places += [f"upstream.dns.port={first}", f"upstream.dns.adminPort={first + 1}"]
        rendered = documents("gateway", *COMMON, *places, *settings, release=name)
        own = [each for each in rendered if not is_hook(each)]
        objects += on_this_machine(own, ADDRESSES, first)
        urls[name], https[name] = f"http://127.0.0.1:{port}", f"https://localhost:{port + 1}"
    with _servers(binary, first), envoy_gateway(
        # Who does not begin with the PROXY protocol is not answered.
        objects, folder, [url for name, url in urls.items() if name != "behind"]
    ) as running:
        yield Platform(running, objects, urls, https)


def _secret(folder: Path) -> dict:
    files = dict(zip(("tls.crt", "tls.key"), certificate(folder, "localhost", "ec"), strict=True))
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
    metadata = {"name": "certificate", "namespace": NAMESPACE}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    return {**kind, "metadata": metadata, "data": data}


@contextmanager
def _servers(binary: Path, port: int) -> Iterator[None]:
    """A replica at each address, with the same ports, as in pods."""
    with ExitStack() as stack:
        for address in ADDRESSES:
            listen = ["--listen", f"{address}:{port}", "--admin.listen", f"{address}:{port + 1}"]
            argv = [binary, *listen, "--replica", address]
            process = stack.enter_context(subprocess.Popen(argv, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
            eventually(lambda url=f"http://{address}:{port + 1}": _ready(url))
        yield


def _ready(admin: str) -> bool:
    try:
        return ask(admin, "/readyz").status == 200
    except OSError:
        return False
