"""Process shutdown."""

import os
import signal
import socket
from collections.abc import Callable

from stack import PATIENCE, eventually
from stack.http import Client, ask
from stack.load import Load
from stack.replica import Server
from support.raw import connect

SETTLES = ("--drain.settle", "30m", "--drain.deadline", "1h")
"""Flags that let a server settle until a second signal."""


def held_request(server: Server) -> socket.socket:
    """Half a request header."""
    client = connect(server.url)
    client.sendall(b"GET /hello HTTP/1.1\r\nHost: te")
    return client


def settling(server: Server) -> None:
    """Sends SIGTERM and waits for the readiness probe to fail."""
    server.terminate()
    eventually(lambda: ask(server.admin, "/readyz").status == 503, "a readiness that fails")


def test_sigterm_drains_and_exits_0(start: Callable[..., Server]) -> None:
    server = start("--drain.settle", "0s")
    kept = Client(server.url)
    assert kept.ask("/hello").status == 200
    server.terminate()
    code, log = server.end()
    assert code == 0, log
    phases = [log.index(f"drain: {phase}") for phase in ("settling", "closing", "ended")]
    assert phases == sorted(phases)


def test_a_begun_request_is_finished_after_the_listeners_are_closed(
    start: Callable[..., Server],
) -> None:
    server = start("--drain.settle", "0s", "--timeouts.header", "1h")
    client = held_request(server)
    eventually(
        lambda: (
            sum(v for k, v in server.metrics().items() if k.startswith("corelane_connections{"))
            == 1
        ),
        "one connection",
    )
    server.terminate()
    eventually(lambda: server.metrics()['corelane_phase{phase="closing"}'] == 1, "closing")
    client.sendall(b"st\r\n\r\n")
    reply = b""
    while part := client.recv(4096):
        reply += part
    assert reply.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in reply
    assert reply.endswith(b"Hello, World!")
    assert server.end()[0] == 0


def test_the_deadline_ends_what_hangs(start: Callable[..., Server]) -> None:
    server = start("--drain.settle", "0s", "--drain.deadline", "1s", "--timeouts.header", "1h")
    client = held_request(server)
    server.terminate()
    code, log = server.end()
    assert "deadline" in log
    # An incomplete header is not a cut request.
    assert code == 0
    client.close()


def test_a_second_signal_ends_it_at_once(start: Callable[..., Server]) -> None:
    server = start(*SETTLES)
    settling(server)
    server.signal(signal.SIGINT)
    code, log = server.end()
    assert code == 0, log
    assert "drain: cut short" in log
    assert "SIGINT" in log


def test_no_request_fails_while_clients_follow_the_drain(start: Callable[..., Server]) -> None:
    """Clients that reconnect when asked are served during settling."""
    server = start(*SETTLES)
    with Load(server.url) as load:
        settling(server)
        load.wait_for(200)
    assert not load.failures
    server.terminate()
    assert server.end()[0] == 0


def test_it_drains_when_nobody_reads_its_log(start: Callable[..., Server]) -> None:
    ours, its = os.pipe()
    os.close(ours)
    with open(its, "w") as log:
        server = start("--drain.settle", "0s", stderr=log)
    server.terminate()
    assert server.wait(PATIENCE) == 0
