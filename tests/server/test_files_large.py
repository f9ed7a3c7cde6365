"""Files too large for memory, streamed from disk."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stack import becomes, eventually
from stack.http import ask
from stack.replica import Server
from support.raw import connect, until_end

MIB = 1 << 20
SIZE = 64 * MIB
SLOW = 24


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("large")


@pytest.fixture(scope="module")
def site(starter: Callable[..., Server], root: Path) -> Iterator[Server]:
    yield starter("--lanes", "1", static=root)


def memory(server: Server, field: str) -> int:
    """Resident memory in bytes: VmRSS (current) or VmHWM (peak); proc(5)."""
    text = Path(f"/proc/{server.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in text.splitlines())
    return int(fields[field].split()[0]) * 1024


def request(server: Server, name: str) -> socket.socket:
    """Requests a file with a small receive buffer and does not read."""
    connection = connect(server.url, receive_bytes=4096)
    connection.sendall(f"GET /static/{name} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
    return connection


def test_memory_does_not_grow_with_the_file(site: Server, root: Path) -> None:
    (root / "sparse").touch()
    os.truncate(root / "sparse", SIZE)
    ask(site.url, "/static/sparse", headers={"Range": "bytes=0-999999"})
    before = memory(site, "VmHWM")
    reply = ask(site.url, "/static/sparse")
    assert (len(reply.body), reply.body.count(0)) == (SIZE, SIZE)
    assert memory(site, "VmHWM") - before < SIZE / 4


def test_memory_does_not_grow_with_slow_clients(site: Server, root: Path) -> None:
    (root / "slow").touch()
    os.truncate(root / "slow", SIZE)
    before = memory(site, "VmHWM")
    clients = [request(site, "slow") for _ in range(SLOW)]
    try:
        # All responses have started, so memory use has peaked.
        for client in clients:
            assert client.recv(1, socket.MSG_PEEK)
        assert ask(site.url, "/hello").status == 200
        assert memory(site, "VmHWM") - before < SLOW * MIB
    finally:
        for client in clients:
            client.close()


def pattern(size: int) -> bytes:
    return b"".join(b"%15d\n" % number for number in range(size // 16))


@pytest.mark.parametrize("change", ["truncated", "overwritten"])
def test_a_file_that_changes_while_it_is_sent(site: Server, root: Path, change: str) -> None:
    """The response is cut short and contains old content only."""
    path, content = root / change, pattern(16 * MIB)
    path.write_bytes(content)
    # Changes are detected by timestamp, which the file system may reuse.
    os.utime(path, (0, 0))
    with request(site, change) as connection:
        begin = connection.recv(4096)
        if change == "truncated":
            os.truncate(path, MIB)
        else:
            path.write_bytes(b"x" * len(content))
        received = begin + until_end(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert f"content-length: {len(content)}".encode() in head
    assert len(body) < len(content)
    assert content.startswith(body)


def test_a_file_that_is_replaced_while_it_is_sent(site: Server, root: Path) -> None:
    """The open file is unaffected by its replacement."""
    content = pattern(4 * MIB)
    (root / "replaced").write_bytes(content)
    with request(site, "replaced") as connection:
        received = bytearray(connection.recv(4096))
        (root / "fresh").write_bytes(b"x" * len(content))
        (root / "fresh").rename(root / "replaced")
        head, _, _ = bytes(received).partition(b"\r\n\r\n")
        while len(received) < len(head) + 4 + len(content):
            piece = connection.recv(65536)
            assert piece, "cut off"
            received += piece
    assert received[len(head) + 4 :] == content


def test_the_tag_of_a_file_that_changes_now_is_weak(site: Server, root: Path) -> None:
    """The tag is weak while the timestamp could be reused, and strong later."""
    path = root / "fresh-file"
    path.write_bytes(bytes(MIB))

    def etag() -> str:
        return ask(site.url, "/static/fresh-file", "HEAD").headers["etag"]

    def weak() -> str | None:
        # The tag is weak for the rest of this second, which a slow machine may miss.
        lately = time.time() - 1
        os.utime(path, (lately, lately))
        found = etag()
        return found if found.startswith('W/"') else None

    becomes(etag, eventually(weak).removeprefix("W/"))


def test_a_client_that_leaves_frees_what_it_had(site: Server, root: Path) -> None:
    (root / "left").touch()
    os.truncate(root / "left", SIZE)
    files = Path(f"/proc/{site.pid}/fd")

    def open_ones() -> int:
        found = 0
        for link in files.iterdir():
            with suppress(FileNotFoundError):  # closed since
                found += os.readlink(link).endswith("/left")
        return found

    clients = [request(site, "left") for _ in range(4)]
    for client in clients:
        assert client.recv(1)
    assert open_ones() >= 1
    for client in clients:
        client.close()
    eventually(lambda: open_ones() == 0)
