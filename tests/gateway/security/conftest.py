"""The gateway with the chart's configuration, in front of a recorder and in front of the real
server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import eventually
from stack.gateway import endpoint, gateway_to
from stack.http import ask
from stack.replica import Server, servers
from support.attacks import Bench
from support.recorder import Recorder


@pytest.fixture(scope="session")
def start_once(binary: Path) -> Iterator[Callable[..., Server]]:
    """Returns a function that starts servers shared by many tests."""
    with servers(binary) as start:
        yield start


@pytest.fixture(scope="session")
def replica(start_once: Callable[..., Server]) -> Server:
    """Yields the real server, which these tests must not change."""
    return start_once()


@pytest.fixture(scope="session")
def bench(replica: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Yields both gateways, for all payloads."""
    recorder = Recorder()
    recorded, served = (tmp_path_factory.mktemp(name) for name in ("recorded", "served"))
    with (
        gateway_to([endpoint(recorder.url, recorder.admin)], recorded) as first,
        gateway_to([endpoint(replica.url, replica.admin)], served) as second,
    ):
        for each in (first, second):
            eventually(lambda url=each.url: ask(url, "/hello").status == 200)
        yield Bench(first.url, recorder, second.url, first.stats)
    recorder.close()
