"""`corelane check`, the client in `helm test` pods, against real servers and the real Envoy."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from stack import programs
from stack.gateway import endpoint, gateway_to
from stack.http import ask
from stack.ports import free_ports
from stack.replica import Server

DEADLINE = "--deadline=3s"
"""Deadline of failing checks: long enough for responses on a busy machine."""

FAILING = {
    "another status": (
        ("{server}/none",),
        ("{server}/none did not reply as expected", "expected 200 OK; last: 404 Not Found"),
    ),
    # A 64-letter label is not a valid name (RFC 1035 section 2.3.4), so no DNS server is queried
    # for it.
    "no such name": ((f"http://{'x' * 64}.test/",), ("cannot resolve the name",)),
    "no such header": (("{server}/hello", "--header=x-other"), ("without x-other",)),
    "another text": (
        ("{server}/work?ops=7", "--body=another"),
        ('expected 200 OK with "another"; last: 200 OK', 'without "another"'),
    ),
    "too few values": (
        ("{gateway}/hello", "--header=corelane-replica", "--distinct=3"),
        ("expected 200 OK and 3 of corelane-replica, seen [one, two]",),
    ),
    "nobody there": (
        ("{nobody}/",),
        ("0 replies, expected 200 OK; last: cannot connect to 127.0.0.1:",),
    ),
    "no reply": (("{silent}/hello",), ("last: no reply before the deadline",)),
}
"""Arguments of failing checks, and their error messages."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the subcommand to completion."""
    return programs.run("corelane", "check", *arguments)


@pytest.fixture(scope="module")
def gateway(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Yields the URL of a gateway with two replicas that alternate."""
    replicas = [starter(replica=name) for name in ("one", "two")]
    values = {"upstream": {"balancing": {"policy": "round-robin"}}}
    endpoints = [endpoint(replica.url, replica.admin) for replica in replicas]
    with gateway_to(endpoints, tmp_path_factory.mktemp("gateway"), values) as running:
        yield running.url


@pytest.fixture(scope="module")
def urls(server: Server, gateway: str) -> Iterator[dict[str, str]]:
    """Yields the checked URLs by name; one of them accepts connections and does not respond."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield {
            "server": server.url,
            "gateway": gateway,
            "nobody": f"http://127.0.0.1:{free_ports(1)}",
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }


@pytest.fixture(scope="module")
def failed(urls: dict[str, str]) -> dict[str, subprocess.CompletedProcess[str]]:
    """Returns the results of the failing checks. All checks run at the same time, because each
    check lasts until its deadline."""
    with ThreadPoolExecutor(len(FAILING)) as pool:
        running = {
            name: pool.submit(run, *(each.format(**urls) for each in arguments), DEADLINE)
            for name, (arguments, _) in FAILING.items()
        }
    return {name: each.result() for name, each in running.items()}


@pytest.mark.parametrize("name", FAILING)
def test_a_failure_says_what_was_missing(
    failed: dict[str, subprocess.CompletedProcess[str]], urls: dict[str, str], name: str
) -> None:
    result = failed[name]
    assert (result.returncode, result.stdout) == (1, "")
    for words in FAILING[name][1]:
        assert words.format(**urls) in result.stderr


def test_the_wanted_status_is_waited_for(server: Server) -> None:
    assert run(f"{server.url}/hello").returncode == 0
    assert run(f"{server.url}/none", "--status=404").returncode == 0


def test_names_are_resolved(server: Server) -> None:
    port = urlsplit(server.url).port
    assert run(f"http://localhost:{port}/hello").returncode == 0


def test_a_header_is_demanded(server: Server) -> None:
    assert run(f"{server.url}/hello", "--header", "corelane-replica").returncode == 0


def test_a_text_of_the_body_is_demanded(server: Server) -> None:
    text = ask(server.url, "/work?ops=7").body.decode().strip()
    # The query is sent unmodified: %37 is 7.
    assert run(f"{server.url}/work?ops=%37", "--body", text).returncode == 0


def test_distinct_values_of_a_header_are_counted(gateway: str) -> None:
    result = run(f"{gateway}/hello", "--header=corelane-replica", "--distinct=2")
    assert result.returncode == 0
    assert "seen [one, two]" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "<URL>"),
        (("https://localhost/",), "expected http://HOST[:PORT][/PATH]"),
        (("http://x/", "--status=99"), "expected a whole number from 100 to 999"),
        (("http://x/", "--header=a b"), "expected the name of an HTTP header"),
        (("http://x/", "--distinct=2"), "--header <NAME>"),
        (("http://x/", "--deadline=60"), "expected a duration with its unit"),
    ],
)
def test_bad_flags_are_named(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr
