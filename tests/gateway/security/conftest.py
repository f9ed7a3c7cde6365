"""The gateway with the chart's configuration, before a recorder and before the real server."""

from collections.abc import Iterator

import pytest

from support import eventually
from support.attacks import Bench
from support.client import ask
from support.envoys import endpoint, gateway_to
from support.recorder import Recorder
from support.servers import Server


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A back end that keeps what it is sent."""
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture(scope="module")
def bench(
    recorder: Recorder, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Both gateways, for all payloads of a module."""
    recorded, served = (tmp_path_factory.mktemp(name) for name in ("recorded", "served"))
    with (
        gateway_to([endpoint(recorder.url, recorder.admin)], recorded) as first,
        gateway_to([endpoint(server.url, server.admin)], served) as second,
    ):
        for each in (first, second):
            eventually(lambda url=each.url: ask(url, "/hello").status == 200)
        yield Bench(first.url, recorder, second.url)
