"""Bearer tokens: authorisation, error responses and reloading."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import PATIENCE, eventually
from stack.credentials import line, token
from stack.http import Client, Reply, ask
from stack.replica import Server
from support.raw import connect, exchange

GOOD, OTHER = token(), token()
NAMELESS = 'Bearer realm="corelane"'
INVALID = 'Bearer realm="corelane", error="invalid_token"'
PROJECT = json.dumps({"name": "n"}).encode()


@pytest.fixture(scope="module")
def guarded(
    starter: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("auth")
    (folder / "tokens").write_text("# who may write\n\n" + line("ci", GOOD) + line("ops", OTHER))
    yield starter(*flags(folder))


def flags(folder: Path, *more: str) -> list[str]:
    """Uses a database and token file in this folder."""
    files = ["--database.path", f"{folder}/projects.db", "--auth.tokens", f"{folder}/tokens"]
    return [*files, "--auth.reload", "100ms", *more]


def save(server: Server, *authorization: str, path: str = "/projects") -> Reply:
    headers = {"Content-Type": "application/json"}
    if authorization:
        (headers["Authorization"],) = authorization
    return ask(server.url, path, "POST", body=PROJECT, headers=headers)


def refused(reply: Reply, challenge: str, status: int = 401, slug: str = "unauthorized") -> None:
    """Rejected as in RFC 6750 section 3."""
    assert (reply.status, reply.headers["www-authenticate"]) == (status, challenge)
    assert reply.headers["content-type"] == "application/problem+json"
    assert json.loads(reply.body)["type"] == f"urn:corelane:problem:{slug}"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("secret", [GOOD, OTHER])
def test_a_token_of_the_file_writes(guarded: Server, scheme: str, secret: str) -> None:
    assert save(guarded, f"{scheme} {secret}").status == 201


def test_without_a_token_there_is_no_error_code(guarded: Server) -> None:
    refused(save(guarded), NAMELESS)
    refused(save(guarded, "Basic YTpi"), NAMELESS)
    refused(save(guarded, GOOD), NAMELESS)


@pytest.mark.parametrize(
    "wrong",
    [
        token(),
        GOOD[:-1],
        f"{GOOD}=",
        GOOD.swapcase(),
        f"{GOOD} {GOOD}",
        f"{GOOD},{GOOD}",
        "",
        hashlib.sha256(GOOD.encode()).hexdigest(),
        "ci",
    ],
)
def test_another_token_is_an_invalid_one(guarded: Server, wrong: str) -> None:
    refused(save(guarded, f"Bearer {wrong}"), INVALID)


def test_two_fields_are_refused_whatever_they_say(guarded: Server) -> None:
    field = f"Authorization: Bearer {GOOD}\r\n"
    fields = "Connection: close\r\nContent-Length: 0\r\n" + field + field
    (reply,) = exchange(guarded.url, head("POST /projects", fields))
    assert reply.status == 400
    assert 'error="invalid_request"' in reply.headers["www-authenticate"]
    assert json.loads(reply.body)["type"] == "urn:corelane:problem:authorization"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_every_write_needs_a_token(guarded: Server, method: str) -> None:
    made = save(guarded, f"Bearer {GOOD}").headers["location"]
    body = {"body": PROJECT} if method == "PUT" else {}
    headers = {"Content-Type": "application/json"}
    refused(ask(guarded.url, made, method, headers=headers, **body), NAMELESS)
    # The response does not reveal what exists either.
    nothing = "/projects/00000000-0000-7000-8000-000000000000"
    refused(ask(guarded.url, nothing, method, headers=headers, **body), NAMELESS)
    assert ask(guarded.url, made).status == 200


def test_reads_need_none(guarded: Server) -> None:
    for path in ("/projects", "/hello", "/openapi.json"):
        assert ask(guarded.url, path).status == 200
        assert ask(guarded.url, path, headers={"Authorization": "Bearer wrong"}).status == 200
    assert ask(guarded.url, "/projects", "OPTIONS").status == 204


def test_the_body_of_who_may_not_write_is_not_asked_for(guarded: Server) -> None:
    """The server responds before the body arrives, and without `100 Continue`."""
    with connect(guarded.url) as peer:
        fields = "Content-Type: application/json\r\nContent-Length: 60000\r\n"
        peer.sendall(head("POST /projects", fields + "Expect: 100-continue\r\n"))
        assert peer.recv(65536).startswith(b"HTTP/1.1 401 ")
    with connect(guarded.url) as peer:
        peer.sendall(head("POST /projects", fields))
        assert peer.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_attempts_are_counted(guarded: Server) -> None:
    def counted() -> list[int]:
        series = guarded.metrics()
        name = 'corelane_auth_attempts_total{{result="{}"}}'
        results = ("accepted", "missing", "invalid", "ambiguous")
        return [int(series[name.format(result)]) for result in results]

    before = counted()
    save(guarded, f"Bearer {GOOD}")
    save(guarded)
    save(guarded)
    save(guarded, "Bearer wrong")
    assert [after - first for after, first in zip(counted(), before, strict=True)] == [1, 2, 1, 0]


def test_without_a_file_nobody_writes(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start("--database.path", str(tmp_path / "projects.db"))
    refused(save(server), NAMELESS)
    refused(save(server, f"Bearer {GOOD}"), INVALID)


def test_tokens_are_in_no_log(start: Callable[..., Server], tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(line("ci", GOOD))
    all_of_it = ["--log.level", "trace", "--log.format", "json", "--drain.settle", "0s"]
    server = start(*flags(tmp_path, *all_of_it))
    client = Client(server.url)
    wrong = token()
    for secret in (GOOD, wrong):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
        client.ask("/projects", "POST", body=PROJECT, headers=headers)
    client.close()
    # A plaintext token.
    (tmp_path / "tokens").write_text(f"ops {OTHER}\n")
    eventually(lambda: server.metrics()["corelane_auth_up_to_date"] == 0)
    server.terminate()
    _, log = server.end()
    assert "tokens loaded" in log
    # The log names the token.
    writes = [line for line in log.splitlines() if "a write is allowed" in line]
    assert [json.loads(line)["token"] for line in writes] == ["ci"]
    for secret in (GOOD, wrong, OTHER):
        assert secret not in log
        assert hashlib.sha256(secret.encode()).hexdigest() not in log


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"ops {OTHER}\n", "line 1: expected"),
        (line("ci", GOOD) + line("ci", OTHER), "line 2: a name"),
        (line("ci", GOOD) + line("ops", GOOD), "line 2: a hash"),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_a_usage_error(
    binary: Path, tmp_path: Path, text: str | None, words: str
) -> None:
    if text is not None:
        (tmp_path / "tokens").write_text(text)
    for check in ([], ["--check"]):
        argv = [binary, "--auth.tokens", tmp_path / "tokens", *check]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (ended.returncode, ended.stdout) == (64, "")
        assert f"auth.tokens: {tmp_path}/tokens" in ended.stderr
        assert words in ended.stderr
        assert OTHER not in ended.stderr


def reloads(server: Server, result: str = "success") -> float:
    """Number of reloads, counted once the lanes use the new tokens."""
    return server.metrics()[f'corelane_auth_reloads_total{{result="{result}"}}']


class TestReload:
    """Reloads when the symlink of a folder changes, as in Kubernetes."""

    @pytest.fixture
    def volume(self, tmp_path: Path) -> Callable[[str | None], None]:
        """Publishes a file named `tokens` as the kubelet publishes a Secret. Without a text,
        `tokens` is a folder.
        """
        (tmp_path / "tokens").symlink_to("..data/tokens")
        count = iter(range(100))

        def put(text: str | None) -> None:
            folder = tmp_path / f"..version{next(count)}"
            folder.mkdir()
            if text is None:
                (folder / "tokens").mkdir()
            else:
                (folder / "tokens").write_text(text)
            (tmp_path / "..data_tmp").symlink_to(folder.name)
            os.rename(tmp_path / "..data_tmp", tmp_path / "..data")

        return put

    def test_new_tokens_take_the_place_of_old_ones(
        self, volume: Callable[[str | None], None], start: Callable[..., Server], tmp_path: Path
    ) -> None:
        volume(line("ci", GOOD))
        server = start(*flags(tmp_path, "--lanes", "2"))
        assert save(server, f"Bearer {GOOD}").status == 201
        volume(line("ci", OTHER))
        eventually(lambda: reloads(server) == 1)
        # Connections may be on any lane.
        for _ in range(8):
            refused(save(server, f"Bearer {GOOD}"), INVALID)
            assert save(server, f"Bearer {OTHER}").status == 201

        # An invalid file is reported and changes nothing.
        volume("what is this\n")
        eventually(lambda: server.metrics()["corelane_auth_up_to_date"] == 0)
        assert reloads(server, "failure") == 1
        assert save(server, f"Bearer {OTHER}").status == 201
        # An unreadable file has the same effect.
        volume(None)
        eventually(lambda: reloads(server, "failure") == 2)
        assert save(server, f"Bearer {OTHER}").status == 201

        volume(line("ci", GOOD) + line("ops", OTHER))
        eventually(lambda: server.metrics()["corelane_auth_up_to_date"] == 1)
        assert server.metrics()["corelane_auth_tokens"] == 2
        assert save(server, f"Bearer {GOOD}").status == 201

    @pytest.mark.parametrize("text", ["", "# nobody\n", None], ids=["empty", "comment", "removed"])
    def test_all_tokens_can_be_revoked(
        self,
        text: str | None,
        volume: Callable[[str | None], None],
        start: Callable[..., Server],
        tmp_path: Path,
    ) -> None:
        volume(line("ci", GOOD))
        server = start(*flags(tmp_path, "--lanes", "2", "--drain.settle", "0s"))
        assert save(server, f"Bearer {GOOD}").status == 201
        if text is None:
            (tmp_path / "..data").unlink()
        else:
            volume(text)
        eventually(lambda: reloads(server) == 1)
        # Connections may be on any lane.
        for _ in range(8):
            refused(save(server, f"Bearer {GOOD}"), INVALID)
        assert server.metrics()["corelane_auth_tokens"] == 0
        assert server.metrics()["corelane_auth_up_to_date"] == 1

        volume(line("ci", GOOD))
        eventually(lambda: reloads(server) == 2)
        assert save(server, f"Bearer {GOOD}").status == 201
        server.terminate()
        _, log = server.end()
        (revoked,) = (each for each in log.splitlines() if "all tokens revoked" in each)
        assert "WARN" in revoked

    def test_a_replica_starts_while_all_tokens_are_revoked(
        self, volume: Callable[[str | None], None], start: Callable[..., Server], tmp_path: Path
    ) -> None:
        volume("# nobody\n")
        server = start(*flags(tmp_path))
        refused(save(server, f"Bearer {GOOD}"), INVALID)
        volume(line("ci", GOOD))
        eventually(lambda: reloads(server) == 1)
        assert save(server, f"Bearer {GOOD}").status == 201


def head(line: str, fields: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: test\r\n{fields}\r\n".encode()
