"""HTTP/3 at the gateway, with a client of QUIC."""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import agents, eventually, quic
from support.client import ask
from support.credentials import certificate
from support.envoys import Gateway, endpoint, gateway_to
from support.processes import program
from support.servers import Server


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    return certificate(tmp_path, "tls", "ec")


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    """One replica of a test's own, which it may stop."""
    return start()


@pytest.fixture
def gateway(server: Server, pair: tuple[Path, Path], tmp_path: Path) -> Iterator[Gateway]:
    """A gateway with TLS and HTTP/3, which also serves without."""
    files = {"certificate": str(pair[0]), "key": str(pair[1])}
    values = {
        "tls": {"enabled": True, "files": files, "plain": "serve"},
        "http3": {"enabled": True, "advertisedPort": 4433},
        "listener": {"bodyBytes": 1000},
    }
    with gateway_to([endpoint(server.url, server.admin)], tmp_path, values=values) as running:
        eventually(lambda: running.counted("cluster.server.membership_healthy") == 1)
        yield running


def test_requests_are_read_and_answered_as_by_tcp(
    gateway: Gateway, pair: tuple[Path, Path]
) -> None:
    async def talk() -> None:
        async with asyncio.timeout(60), quic.http3(gateway.tls, pair[0]) as client:
            replies = [await client.ask(f"{gateway.tls}/hello?n={n}") for n in range(3)]
            assert {(each.status, each.replica, each.body) for each in replies} == {
                (200, "test", b"Hello, World!")
            }
            # Envoy's HTTP/3 resets the stream where HTTP/1.1 answers 400.
            with pytest.raises(ConnectionResetError):
                await client.ask(f"{gateway.tls}/refused", headers={"content_length": "0"})
            assert (await client.ask(f"{gateway.tls}/hello?n=3")).status == 200

    asyncio.run(talk())
    assert gateway.logged("/hello?n=1")["protocol"] == "HTTP/3"
    large = quic.ask(f"{gateway.tls}/hello", pair[0], method="POST", body=b"x" * 1001)
    assert (large.status, json.loads(large.body)["title"]) == (413, "Payload Too Large")


def test_replies_by_tls_tell_of_http3(gateway: Gateway, pair: tuple[Path, Path]) -> None:
    over_tls = ask(gateway.tls, "/hello", authority=pair[0])
    assert over_tls.status == 200
    assert over_tls.headers["alt-svc"] == 'h3=":4433"; ma=86400'
    assert "alt-svc" not in ask(gateway.url, "/hello").headers
    assert "alt-svc" not in quic.ask(f"{gateway.tls}/hello", pair[0]).headers


def test_a_drain_waits_for_requests_by_http3(
    gateway: Gateway, server: Server, pair: tuple[Path, Path], tmp_path: Path
) -> None:
    flags = ("--settle=0s", "--deadline=20s")
    # Built now, not while the server is stopped.
    program("gateway-agent")

    async def talk() -> None:
        async with asyncio.timeout(60), quic.http3(gateway.tls, pair[0]) as client:
            assert (await client.ask(f"{gateway.tls}/hello")).status == 200
            server.stop()
            asking = asyncio.create_task(client.ask(f"{gateway.tls}/hello"))
            while gateway.counted("http.ingress.downstream_rq_active") != 1:
                await asyncio.sleep(0.02)
            with agents.drain(gateway, tmp_path / "agent.log", *flags) as drain:
                await asyncio.to_thread(drain.wait_for, "drain: settled")
                assert drain.process.poll() is None
                server.process.send_signal(signal.SIGCONT)
                assert (await asking).status == 200
                # GOAWAY came with the reply: the gateway closes when the client asks no more.
                code, last = await asyncio.to_thread(drain.end)
                assert (code, last["message"]) == (0, "drain: ended")

    asyncio.run(talk())


def test_the_listener_is_udp_on_the_port_of_tls(gateway: Gateway) -> None:
    shown = json.loads(ask(gateway.admin, "/listeners?format=json").body)
    found = {
        entry["name"]: entry["local_address"]["socket_address"]
        for entry in shown["listener_statuses"]
    }
    assert set(found) == {"ingress", "ingress_tls", "ingress_http3", "stats"}
    port = urlsplit(gateway.tls).port
    assert found["ingress_http3"]["port_value"] == found["ingress_tls"]["port_value"] == port
