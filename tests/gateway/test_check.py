"""`corelane check`, the client of `helm test` pods, on real servers and the real Envoy."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support import agents
from support.client import ask
from support.envoys import endpoint, gateway_to
from support.processes import free_ports
from support.servers import Server

SHORT = "--deadline=2s"
"""Long enough for a reply on a busy machine."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the subcommand to its end."""
    return agents.run("corelane", "check", *arguments)


def test_the_wanted_status_is_waited_for(server: Server) -> None:
    assert run(f"{server.url}/hello").returncode == 0
    assert run(f"{server.url}/none", "--status=404").returncode == 0


def test_another_status_is_a_failure_with_words(server: Server) -> None:
    result = run(f"{server.url}/none", SHORT)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"{server.url}/none did not reply as expected" in result.stderr
    assert "expected 200 OK; last: 404 Not Found" in result.stderr


def test_names_are_resolved(server: Server) -> None:
    port = urlsplit(server.url).port
    assert run(f"http://localhost:{port}/hello").returncode == 0
    # A label of 64 letters is no name (RFC 1035 section 2.3.4), so nobody is asked for it.
    result = run(f"http://{'x' * 64}.test/", SHORT)
    assert result.returncode == 1
    assert "cannot resolve the name" in result.stderr


def test_a_header_is_demanded(server: Server) -> None:
    asked = (f"{server.url}/hello", "--header")
    assert run(*asked, "corelane-replica").returncode == 0
    result = run(*asked, "x-other", SHORT)
    assert result.returncode == 1
    assert "without x-other" in result.stderr


def test_a_text_of_the_body_is_demanded(server: Server) -> None:
    text = ask(server.url, "/work?ops=7").body.decode().strip()
    # The query is sent as it was given: %37 is 7.
    asked = (f"{server.url}/work?ops=%37", "--body")
    assert run(*asked, text).returncode == 0
    result = run(*asked, "another", SHORT)
    assert result.returncode == 1
    assert 'expected 200 OK with "another"; last: 200 OK' in result.stderr
    assert 'without "another"' in result.stderr


def test_distinct_values_of_a_header_are_counted(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    replicas = [start(replica=name) for name in ("one", "two")]
    endpoints = [endpoint(replica.url, replica.admin) for replica in replicas]
    with gateway_to(endpoints, tmp_path) as gateway:
        asked = (f"{gateway.url}/hello", "--header=corelane-replica")
        result = run(*asked, "--distinct=2")
        assert result.returncode == 0
        assert "seen [one, two]" in result.stdout
        # Replies of both replicas are to come before it ends.
        result = run(*asked, "--distinct=3", "--deadline=5s")
        assert result.returncode == 1
        assert "expected 200 OK and 3 of corelane-replica, seen [one, two]" in result.stderr


def test_nobody_there_is_a_failure() -> None:
    result = run(f"http://127.0.0.1:{free_ports(1)}/", SHORT)
    assert result.returncode == 1
    assert "0 replies, expected 200 OK; last: cannot connect to 127.0.0.1:" in result.stderr


def test_a_server_that_hangs_does_not_outlive_the_deadline(start: Callable[..., Server]) -> None:
    hanging = start()
    hanging.stop()
    result = run(f"{hanging.url}/hello", SHORT)
    assert result.returncode == 1
    assert "last: no reply before the deadline" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "<URL>"),
        (("https://localhost/",), "allowed is http://HOST[:PORT][/PATH]"),
        (("http://x/", "--status=99"), "allowed is a whole number from 100 to 999"),
        (("http://x/", "--header=a b"), "allowed is the name of an HTTP header"),
        (("http://x/", "--distinct=2"), "--header <NAME>"),
        (("http://x/", "--deadline=60"), "allowed is a duration with its unit"),
    ],
)
def test_bad_flags_are_named(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (64, "")
    assert words in result.stderr
