"""No path or link escapes the root of `/static/`, byte for byte."""

import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from stack.http import ask
from stack.replica import Server
from support.raw import exchange
from support.seccomp import without

SECRET = b"not for clients"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root next to a secret, with every kind of link to it."""
    top = tmp_path_factory.mktemp("top")
    root = top / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder/file.txt").write_text("for clients")
    (root / "index.html").write_text("home")
    (top / "secret").write_bytes(SECRET)
    (top / "outside").mkdir()
    (top / "outside/secret").write_bytes(SECRET)
    for name in (".env", ".git/config", "folder/.htpasswd", ".well-known/.hidden"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(SECRET)
    for link, target in {
        "link": "../secret",
        "absolute": f"{top}/secret",
        "around": f"../{root.name}/../secret",
        "folder/up": "../../secret",
        "out": "../outside",
        "proc": "/proc/self/cwd",
        "loop": "loop",
        "inside": "folder/file.txt",
        "folder/back": "../folder/file.txt",
    }.items():
        (root / link).symlink_to(target)
    os.mkfifo(root / "fifo")
    os.mknod(root / "socket", stat.S_IFSOCK | 0o644)
    if os.geteuid() == 0:
        os.mknod(root / "device", stat.S_IFCHR | 0o644, os.makedev(1, 5))  # null(4), /dev/zero
    return root


@pytest.fixture(scope="module")
def started(starter: Callable[..., Server], root: Path) -> Callable[[str], Server]:
    """One server for each way of opening files, regardless of test order."""

    @cache
    def start(way: str) -> Server:
        within = without("openat2") if way == "no openat2" else ()
        return starter("--lanes", "1", static=root, within=within)

    return start


@pytest.fixture(params=["openat2", "no openat2"])
def site(request: pytest.FixtureRequest, started: Callable[[str], Server]) -> Server:
    """Opens files in one of two ways."""
    return started(request.param)


@pytest.mark.parametrize(
    "path",
    [
        *("../secret", "folder/../../secret", "./../secret", "..", "../", "folder/..", "."),
        *("%2e%2e/secret", "%2E./secret", "..%2fsecret", "%2e%2e%2fsecret", "folder/%2e%2e/../x"),
        *("..%5csecret", "..\\secret", "folder\\..\\..\\secret", "%5c..%5csecret"),
        *("%252e%252e/secret", "..%252fsecret", "%c0%ae%c0%ae/secret", "..%c0%afsecret"),
        *("..;/secret", "..%00/secret", "%00", "index.html%00.txt", "folder%00"),
        *("/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "/", "folder//file.txt", "/secret"),
        *(
            "link",
            "absolute",
            "around",
            "folder/up",
            "out/secret",
            "out",
            "proc",
            "proc/Cargo.toml",
        ),
        *("loop", "loop/x", "folder/file.txt/", "folder/file.txt/x", "index.html/../../secret"),
        *("fifo", "socket", "device", "none", "none/../../secret", "%", "%zz", "%2", "%0d%0aX: y"),
        *(".env", ".git/config", "%2eenv", "folder/.htpasswd", ".well-known/.hidden", ".git"),
        *("a" * 300, "a/" * 2000, "%ff", "..%ff/secret", "~root/x", "C:/secret", "file:///secret"),
    ],
)
def test_nothing_leads_out(site: Server, path: str) -> None:
    target = f"/static/{path}".encode()
    for line in (target, b"http://test" + target):
        request = b"GET " + line + b" HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        (reply,) = exchange(site.url, request)
        # Some paths are invalid targets and are rejected by the library.
        assert reply.status in (400, 404), reply
        assert reply.headers["content-type"] == "application/problem+json"
        assert SECRET not in reply.body and b"root:" not in reply.body
        assert "x" not in reply.headers


@pytest.mark.parametrize("path", ["folder/file.txt", "inside", "folder/back", "folder/%66ile.txt"])
def test_what_is_inside_is_served(site: Server, path: str) -> None:
    assert ask(site.url, f"/static/{path}").body == b"for clients"


def test_no_redirect_leads_to_another_host(site: Server, root: Path) -> None:
    for name in ("example.com", "a:b", "@host", "é"):
        (root / name).mkdir(exist_ok=True)
    for path in ("/example.com", "%2fexample.com", "\\example.com", "/%2fexample.com/"):
        assert ask(site.url, f"/static/{path}").status in (400, 404), path
    for path in ("example.com", "a:b", "@host", "%C3%A9"):
        location = ask(site.url, f"/static/{path}").headers["location"]
        assert location.startswith("./") and location.endswith("/"), location
