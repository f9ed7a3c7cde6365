"""The gateway with the chart's configuration, in front of a recorder and in front of the real
server, over plaintext and over mutual TLS."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.test_mtls import GATEWAY, REPLICA, files, flags, values
from stack import eventually
from stack.credentials import SecretFolder, authority
from stack.gateway import endpoint, gateway_to
from stack.http import ask
from stack.replica import Server, servers
from support.attacks import Bench, Upstream
from support.recorder import Recorder


@pytest.fixture(scope="session")
def start_once(binary: Path) -> Iterator[Callable[..., Server]]:
    """Returns a function that starts servers shared by many tests."""
    with servers(binary) as start:
        yield start


@pytest.fixture(
    scope="session", params=["plaintext", pytest.param("mtls", marks=pytest.mark.nightly)]
)
def upstream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    """Returns how the gateways connect to the back ends."""
    if request.param == "plaintext":
        return Upstream()
    folder = tmp_path_factory.mktemp("mtls")
    ca = authority(folder, "ca")
    mine, yours = (SecretFolder(folder / name) for name in ("gateway", "replica"))
    mine.put(files(ca.issue(GATEWAY), ca))
    yours.put(files(ca.issue(REPLICA), ca))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(yours.path / "tls.crt", yours.path / "tls.key")
    context.load_verify_locations(yours.path / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    return Upstream(values(mine), tuple(flags(yours)), "https", context)


@pytest.fixture(scope="session")
def start_behind(start_once: Callable[..., Server], upstream: Upstream) -> Callable[..., Server]:
    """Returns a function that starts servers for the gateways."""

    def start(**more: object) -> Server:
        return start_once(*upstream.flags, scheme=upstream.scheme, **more)

    return start


@pytest.fixture(scope="session")
def replica(start_behind: Callable[..., Server]) -> Server:
    """Yields the real server, which these tests must not change."""
    return start_behind()


@pytest.fixture(scope="session")
def bench(
    replica: Server, upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Yields both gateways, for all payloads."""
    recorder, way = Recorder(upstream.tls), upstream.values
    recorded, served = (tmp_path_factory.mktemp(name) for name in ("recorded", "served"))
    with (
        gateway_to([endpoint(recorder.url, recorder.admin)], recorded, way) as first,
        gateway_to([endpoint(replica.url, replica.admin)], served, way) as second,
    ):
        for each in (first, second):
            eventually(lambda url=each.url: ask(url, "/hello").status == 200)
        yield Bench(first.url, recorder, second.url, first.stats)
    recorder.close()
