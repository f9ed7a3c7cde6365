"""What the server logs of requests, and how that is changed while it runs."""

import json
import signal
import socket
import time
from collections.abc import Callable

import pytest

from support import eventually
from support.client import Client, Reply, ask
from support.servers import Server

EVERY_REQUEST = "info,corelane::request=debug"


def requests(server: Server) -> list[dict]:
    """Ends a server that logs JSON; its lines about requests."""
    server.process.send_signal(signal.SIGTERM)
    code, log = server.end()
    assert code == 0, log
    lines = [json.loads(line) for line in log.splitlines()]
    return [line for line in lines if line["target"] == "corelane::request"]


def logging(start: Callable[..., Server], *flags: str) -> Server:
    """A server that logs JSON and ends at once."""
    return start("--log.format", "json", "--drain.settle", "0s", *flags)


def put(server: Server, level: str, query: str = "") -> Reply:
    """Sets the log level."""
    return ask(server.admin, f"/log-level{query}", "PUT", body=level.encode())


def test_a_request_is_a_line_with_its_id_and_phases(start: Callable[..., Server]) -> None:
    server = logging(start, "--log.level", EVERY_REQUEST)
    client = Client(server.url)
    secret = {"authorization": "Bearer hidden", "x-request-id": "from-the-client"}
    replies = [
        client.ask("/hello?token=hidden", headers=secret),
        client.ask("/div/hidden", headers={"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}),
        client.ask("/none/hidden"),
    ]
    client.close()
    eventually(lambda: sum_of(server, "corelane_requests_total") == 3, "three requests counted")
    server.process.send_signal(signal.SIGTERM)
    code, log = server.end()
    assert (code, "hidden" in log) == (0, False), log
    lines = [line for line in map(json.loads, log.splitlines()) if "route" in line]
    assert [(line["method"], line["route"], line["status"]) for line in lines] == [
        ("GET", "/hello", 200),
        ("GET", "/div/{n}", 400),
        ("GET", "other", 404),
    ]
    ids = [reply.headers["x-request-id"] for reply in replies]
    assert [line["request_id"] for line in lines] == ids
    assert ids[0] == "from-the-client"
    assert [line.get("trace_id") for line in lines] == [None, "a" * 32, None]
    for line, reply in zip(lines, replies, strict=True):
        assert (line["level"], line["complete"]) == ("DEBUG", True)
        assert line["lane"] == int(reply.headers["corelane-lane"])
        assert line["body_bytes"] == len(reply.body)
        assert min(line[f"{phase}_seconds"] for phase in ("queue", "handler", "write")) >= 0
    assert ["accept_seconds" in line for line in lines] == [True, False, False]


def sum_of(server: Server, family: str) -> float:
    """The sum of all series of a family."""
    metrics = server.metrics().items()
    return sum(value for name, value in metrics if name.startswith(f"{family}{{"))


@pytest.mark.parametrize(
    ("flags", "client"),
    [
        ([], None),
        (["--log.client", "on"], "127.0.0.1"),
        (["--log.client", "on", "--trusted-proxies", "10.0.0.0/8, 127.0.0.1"], "192.0.2.1"),
        (
            [
                "--log.client",
                "on",
                "--trusted-proxies",
                "127.0.0.1",
                "--forwarded-header",
                "forwarded",
            ],
            "192.0.2.2",
        ),
    ],
)
def test_a_line_has_the_client_where_that_was_set(
    start: Callable[..., Server], flags: list[str], client: str | None
) -> None:
    server = logging(start, "--log.level", EVERY_REQUEST, *flags)
    headers = {"x-forwarded-for": "6.6.6.6, 192.0.2.1", "forwarded": "for=192.0.2.2"}
    assert ask(server.url, "/hello", headers=headers).status == 200
    assert [line.get("client") for line in requests(server)] == [client]


def test_the_header_of_a_proxy_names_the_client(start: Callable[..., Server]) -> None:
    flags = ["--log.client", "on", "--proxy-protocol", "on", "--log.level", EVERY_REQUEST]
    server = logging(start, *flags)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"PROXY TCP4 192.0.2.3 198.51.100.2 5000 80\r\n")
        client.sendall(b"GET /hello HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 200 ")
    assert [line.get("client") for line in requests(server)] == ["192.0.2.3"]


def test_by_default_failures_alone_are_logged_and_not_without_measure(
    start: Callable[..., Server],
) -> None:
    server = logging(start, "--lanes", "1")
    client = Client(server.url)
    assert {client.ask("/hello").status for _ in range(3)} == {200}
    # Not implemented, which is a failure of the server.
    begun = time.monotonic()
    ids = [client.ask("/hello", "TRACE").headers["x-request-id"] for _ in range(300)]
    took = time.monotonic() - begun
    client.close()
    lines = requests(server)
    assert {(line["level"], line["status"]) for line in lines} == {("WARN", 501)}
    assert lines[0]["request_id"] == ids[0]
    # 10 in each second that it took.
    assert 10 <= len(lines) <= 10 * (took + 2)
    assert "left_out" not in lines[0]


def test_the_level_changes_while_the_server_runs(start: Callable[..., Server]) -> None:
    server = logging(start)

    def shown() -> str:
        return ask(server.admin, "/log-level").body.decode()

    def named(name: str) -> dict[str, str]:
        return {"x-request-id": name}

    assert shown() == "info\n"
    # A reply is there before its request has ended; that of the next on the same connection comes after.
    client = Client(server.url)
    client.ask("/div/1", headers=named("before"))
    client.ask("/hello")
    client.close()
    assert put(server, EVERY_REQUEST).status == 200
    assert shown() == f"{EVERY_REQUEST}\n"
    ask(server.url, "/div/2", headers=named("logged"))
    for level, query in (("loud", ""), ("", ""), ("debug", "?for=soon")):
        refused = put(server, level, query)
        assert refused.status == 400
        assert refused.headers["content-type"] == "application/problem+json"
    assert json.loads(put(server, "loud").body)["type"] == "urn:corelane:problem:bad-log-level"
    assert ask(server.admin, "/log-level", "DELETE").headers["allow"] == "GET, HEAD, PUT"
    assert shown() == f"{EVERY_REQUEST}\n"

    assert put(server, "debug", "?for=1h").body.startswith(b"debug\nfor ")
    assert put(server, "debug", "?for=1s").status == 200
    eventually(lambda: shown() == "info\n", "the level of the start")
    ask(server.url, "/div/3", headers=named("after"))
    ids = {line["request_id"] for line in requests(server)}
    assert ids & {"before", "logged", "after"} == {"logged"}


def test_without_ids_no_reply_and_no_line_has_one(start: Callable[..., Server]) -> None:
    server = logging(start, "--request-ids", "off", "--log.level", EVERY_REQUEST)
    reply = ask(server.url, "/hello", headers={"x-request-id": "from-the-client"})
    assert "x-request-id" not in reply.headers
    (line,) = requests(server)
    assert "request_id" not in line
