"""The shutdown of a gateway: `gateway-agent drain` on the real Envoy, then SIGTERM."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import PATIENCE, agents, eventually, programs
from stack.gateway import Gateway, endpoint, gateway_to
from stack.http import Client, Reply, ask
from stack.load import Load
from stack.ports import free_ports
from stack.rendering import container, render
from stack.replica import Server
from support.http2 import Http2Client
from support.raw import connect

LONG = "--deadline=10m"
"""Deadline of a drain that ends earlier or that the test kills."""


@pytest.fixture
def gateway(server: Server, tmp_path: Path) -> Iterator[Gateway]:
    """Yields a gateway in front of the replica; a test may stop the gateway."""
    with gateway_to([endpoint(server.url, server.admin)], tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def other(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yields another gateway in front of the replica; no test drains or stops it."""
    folder = tmp_path_factory.mktemp("other")
    with gateway_to([endpoint(server.url, server.admin)], folder) as running:
        yield running


def pre_stop(gateway: Gateway, values: Path, *settings: str) -> list[str]:
    """Returns the arguments of the chart's preStop, with this process in place of a container's first process."""
    hook = container(render("gateway", *settings, values=values))["lifecycle"]["preStop"]
    binary, *arguments = hook["exec"]["command"]
    assert binary == "/gateway-agent"
    own = f"/proc/{gateway.process.pid}/fd/2"
    return [argument.replace("/proc/1/fd/2", own) for argument in arguments]


def end(gateway: Gateway) -> int:
    """Stops Envoy as the kubelet does after the hook; returns its exit code."""
    gateway.process.terminate()
    return gateway.process.wait(PATIENCE)


def connections(gateway: Gateway) -> int:
    """Returns the number of connected clients."""
    shown = ask(gateway.admin, "/stats?filter=^listener.ingress.downstream_cx_active").body
    return int(shown.split()[-1])


@contextmanager
def request_in_flight(server: Server, gateway: Gateway) -> Iterator[list[Reply]]:
    """Sends a request whose replica does not respond until the context ends; the response is then
    in the list.
    """
    replies: list[Reply] = []
    asking = threading.Thread(target=lambda: replies.append(ask(gateway.url, "/hello")))
    server.freeze()
    try:
        asking.start()
        wanted = b"http.ingress.downstream_rq_active: 1"
        eventually(lambda: wanted in ask(gateway.admin, "/stats?filter=downstream_rq_active").body)
        yield replies
    finally:
        server.thaw()
        asking.join()


@pytest.mark.parametrize("connect", [Client, Http2Client])
def test_no_request_fails_while_a_gateway_ends(
    gateway: Gateway, other: Gateway, tmp_path: Path, connect: Callable[[str], Client | Http2Client]
) -> None:
    """New client connections go to another gateway, as they do behind a Service."""
    settings = ("shutdown.settle=1s", "shutdown.deadline=10m")
    arguments = pre_stop(gateway, tmp_path / "values.yaml", *settings)
    with (
        Load(gateway.url, connect=connect) as load,
        agents.command(tmp_path, *arguments) as drain,
    ):
        load.wait_for(50)
        drain.wait_for("drain: begun")
        # The Service still lists the gateway, which therefore has to keep serving.
        load.wait_for(50)
        load.url = other.url
        eventually(lambda: connections(other) == load.clients, "every client at the other gateway")
        code, last = drain.end()
        assert (code, last["message"], last["connections"]) == (0, "drain: ended", 0)
        assert end(gateway) == 0
        load.wait_for(50)
    assert not load.failures
    assert drain.phases()["drain: settled"]["after_ms"] >= 1000
    assert '"drain: ended"' in gateway.errors.read_text()


def test_every_reply_asks_to_close_and_new_connections_are_served(
    gateway: Gateway, tmp_path: Path
) -> None:
    kept = Client(gateway.url)
    assert "connection" not in kept.ask("/hello").headers
    over_http2 = Http2Client(gateway.url)
    assert "connection" not in over_http2.ask("/hello").headers
    with agents.drain(gateway, tmp_path, "--settle=10m", LONG) as drain:
        drain.wait_for("drain: begun")
        # Envoy still accepts requests for 5 s after a GOAWAY, so the second request may arrive over
        # the same connection.
        replies = [kept.ask("/hello"), over_http2.ask("/hello"), over_http2.ask("/hello")]
        replies += [ask(gateway.url, "/hello") for _ in range(20)]
        assert [(reply.status, reply.headers["connection"]) for reply in replies] == [
            (200, "close")
        ] * len(replies)
        assert ask(gateway.stats, "/ready").status == 503


def test_a_request_in_flight_is_finished(server: Server, gateway: Gateway, tmp_path: Path) -> None:
    with request_in_flight(server, gateway) as replies:
        with agents.drain(gateway, tmp_path, "--settle=100ms", LONG) as drain:
            settled = drain.wait_for("drain: settled")
            assert (settled["connections"], settled["requests"]) == (1, 1)
            assert drain.running
            server.thaw()
            code, last = drain.end()
        assert (code, last["message"], last["connections"]) == (0, "drain: ended", 0)
        assert end(gateway) == 0
    (reply,) = replies
    assert (reply.status, reply.headers["connection"]) == (200, "close")


def test_the_deadline_cuts_and_says_so(server: Server, gateway: Gateway, tmp_path: Path) -> None:
    flags = ("--settle=100ms", "--deadline=3s")
    with (
        request_in_flight(server, gateway),
        agents.drain(gateway, tmp_path, *flags) as drain,
    ):
        code, last = drain.end()
    assert (code, last["level"], last["message"]) == (0, "WARN", "drain: cut at its deadline")
    assert (last["connections"], last["requests"]) == (1, 1)


def test_an_idle_connection_is_waited_for_but_loses_nothing(
    gateway: Gateway, tmp_path: Path
) -> None:
    flags = ("--settle=100ms", "--deadline=3s")
    with (
        connect(gateway.url) as idle,
        agents.drain(gateway, tmp_path, *flags) as drain,
    ):
        code, last = drain.end()
        assert (code, last["level"], last["message"]) == (0, "INFO", "drain: ended")
        assert (last["connections"], last["requests"]) == (1, 0)
        assert last["after_ms"] >= 2500
        assert end(gateway) == 0
        assert idle.recv(1) == b""


def test_a_drain_goes_on_to_its_deadline_when_envoy_falls_silent(
    gateway: Gateway, tmp_path: Path
) -> None:
    # Enough time for the drain to start and for Envoy to exit afterwards.
    flags = ("--settle=0s", "--deadline=3s")
    with (
        Load(gateway.url),
        agents.drain(gateway, tmp_path, *flags) as drain,
    ):
        drain.wait_for("drain: begun")
        gateway.process.kill()
        code, last = drain.end()
    assert (code, last["level"], last["message"]) == (0, "WARN", "drain: cut at its deadline")
    assert "connections" not in last


def test_an_admin_that_never_answers_is_a_failure() -> None:
    admin = f"127.0.0.1:{free_ports(1)}"
    flags = (f"--admin={admin}", "--settle=0s", "--deadline=300ms")
    result = programs.run("gateway-agent", "drain", *flags)
    assert result.returncode == 1
    # The last attempt was rejected, or aborted by the deadline.
    assert re.search(f"drain: failed: (cannot connect to|no reply from) {admin}", result.stderr)


def test_an_admin_that_refuses_is_a_failure(other: Gateway) -> None:
    """Uses the listener for Prometheus instead, which passes only two paths."""
    result = programs.run("gateway-agent", "drain", f"--admin={urlsplit(other.stats).netloc}")
    assert result.returncode == 1
    assert "replied 404 Not Found to /healthcheck/fail" in result.stderr


def test_a_log_file_that_cannot_be_written_stops_nothing(gateway: Gateway, tmp_path: Path) -> None:
    flags = (f"--log-file={tmp_path}", "--settle=0s", LONG)
    with agents.drain(gateway, tmp_path, *flags) as drain:
        code, last = drain.end()
    assert (code, last["message"]) == (0, "drain: ended")
    assert f"cannot write to the log file {tmp_path}: Is a directory" in drain.log.read_text()


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--settle=30", "invalid value '30' for '--settle <DURATION>': expected a duration"),
        ("--deadline=2h", "invalid value '2h' for '--deadline <DURATION>': expected a duration"),
        (
            "--admin=localhost",
            "invalid value 'localhost' for '--admin <ADDRESS>': expected an IP",
        ),
        ("--listener=a.b", "invalid value 'a.b' for '--listener <NAME>': expected letters"),
        ("--log-format=xml", "[possible values: text, json]"),
        ("--settle=50s", "--settle 50s must not exceed --deadline 45s"),
        ("--settel=1s", "unexpected argument '--settel'"),
    ],
)
def test_bad_flags_are_named(flag: str, words: str) -> None:
    result = programs.run("gateway-agent", "drain", flag)
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SETTLE", "invalid value '5' for '--settle <DURATION>'"),
        ("SETTEL", "unknown key; did you mean GATEWAY_AGENT_SETTLE?\n"),
    ],
)
def test_bad_variables_are_named(name: str, words: str) -> None:
    result = programs.run("gateway-agent", "drain", **{f"GATEWAY_AGENT_{name}": "5"})
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr


def test_a_command_is_needed() -> None:
    result = programs.run("gateway-agent")
    assert result.returncode == 64
    assert "requires a subcommand" in result.stderr
