"""Paths: what the gateway makes of them, what it refuses, and that no file outside is served."""

import pytest

from support.attacks import HOST, Bench, table
from support.raw import exchange
from support.servers import STATIC


def get(path: bytes) -> bytes:
    """A request for a path, as it is."""
    return b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.mark.parametrize(
    "path",
    [
        *(b"/a%2fb", b"/a%2Fb", b"/a%5cb", b"/..%5cb", b"/a/%2E%2E%2Fb", b"/a%00b"),
        *(b"/a#b", b"/a?b#c"),
    ],
)
def test_a_path_with_two_readings_is_refused(bench: Bench, path: bytes) -> None:
    bench.refuses(get(path))


@pytest.mark.parametrize(
    ("path", "seen"),
    table(
        (b"/a/../b", b"/b"),
        (b"/../b", b"/b"),
        (b"/a/..", b"/"),
        (b"/a/./b", b"/a/b"),
        (b"/a/%2e%2e/b", b"/b"),
        (b"/a/.%2E/b", b"/b"),
        (b"/%2e", b"/"),
        (b"/a/..;/b", b"/b"),
        (b"/a/..;x=y/b", b"/b"),
        (b"/a;x/../b", b"/b"),
        (b"/a\\b", b"/a/b"),
        (b"/a\\..\\b", b"/b"),
        (b"//other//b", b"/other/b"),
        # Decoded once only, which is what the server does as well.
        (b"/%252e%252e/b", b"/%252e%252e/b"),
        (b"/%c0%ae%c0%ae/b", b"/%c0%ae%c0%ae/b"),
        (b"/.../b", b"/.../b"),
        (b"/a%0d%0ab", b"/a%0d%0ab"),
        (b"/a;x=y/b", b"/a;x=y/b"),
        (b"/a?../b", b"/a?../b"),
        (b'/a<">', b"/a%3C%22%3E"),
        # Known gap: Envoy looks for `..;` before it decodes.
        (b"/a/%2e%2e;/b", b"/a/..;/b"),
    ),
)
def test_a_path_arrives_in_its_normal_form(bench: Bench, path: bytes, seen: bytes) -> None:
    replies, record = bench.send(get(path))
    assert [reply.status for reply in replies] == [200, 200]
    assert record.requests[0].line == b"GET " + seen + b" HTTP/1.1"


ESCAPES = [
    *(b"/static/../Cargo.toml", b"/static/..%2fCargo.toml", b"/static/%2e%2e/Cargo.toml"),
    *(b"/static/..;/Cargo.toml", b"/static/%2e%2e;/Cargo.toml", b"/static/..\\Cargo.toml"),
    *(b"/static/..%5cCargo.toml", b"/static/%252e%252e/Cargo.toml", b"/static//../Cargo.toml"),
    *(b"/static/%252e%252e%252fCargo.toml", b"/static/%c0%ae%c0%ae/Cargo.toml"),
    *(b"/static/....//Cargo.toml", b"/static/.%00./Cargo.toml", b"/static/4k.txt%00.html"),
    *(b"/static/%uff0e%uff0e/Cargo.toml", b"/static//etc/passwd", b"/static/file:///etc/passwd"),
    *(b"/static/" + b"../" * 40 + b"etc/passwd", b"/static/" + b"%2e%2e/" * 40 + b"etc/passwd"),
]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_file_outside_the_static_folder_is_served(bench: Bench, path: bytes) -> None:
    assert (STATIC.parent / "Cargo.toml").exists()
    (reply,) = exchange(bench.served, get(path).replace(HOST, HOST + b"connection: close\r\n"))
    assert reply.status in (400, 404)
    assert b"[package]" not in reply.body
    assert b"root:" not in reply.body


def test_the_static_folder_itself_is_served(bench: Bench) -> None:
    for path in (
        b"/static/4k.txt",
        b"/static/./x/../4k.txt",
        b"/static/%34k.txt",
        b"//static//4k.txt",
    ):
        (reply,) = exchange(bench.served, get(path).replace(HOST, HOST + b"connection: close\r\n"))
        assert (reply.status, len(reply.body)) == (200, 4096), path
