"""Files that change on disk while cached in memory."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stack import becomes
from stack.http import Client, Reply, ask
from stack.replica import Server

OLD, NEW = b"the old content", b"the new content"
"""Equal length, so only the content differs."""


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions of a site, and a link to the active one."""
    top = tmp_path_factory.mktemp("sites")
    for version in ("one", "two"):
        (top / version).mkdir()
    (top / "current").symlink_to("one")
    return top


@pytest.fixture(scope="module")
def site(starter: Callable[..., Server], top: Path) -> Iterator[Server]:
    yield starter("--lanes", "1", static=top / "current")


@pytest.fixture
def folder(top: Path, request: pytest.FixtureRequest) -> Path:
    folder = top / "one" / request.node.name
    folder.mkdir()
    return folder


def get(site: Server, folder: Path, name: str, **headers: str) -> Reply:
    return ask(site.url, f"/static/{folder.name}/{name}", headers=headers)


def change_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(NEW)


def change_with_its_old_time(path: Path) -> None:
    status = path.stat()
    change_in_place(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: Path) -> None:
    fresh = path.with_name("fresh")
    fresh.write_bytes(NEW)
    fresh.rename(path)


def replace_by_one_of_the_same_time(path: Path) -> None:
    status = path.stat()
    fresh = path.with_name("fresh")
    fresh.write_bytes(NEW)
    os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
    fresh.rename(path)


def delete_and_create(path: Path) -> None:
    path.unlink()
    path.write_bytes(NEW)


@pytest.mark.parametrize(
    "change",
    [
        change_in_place,
        change_with_its_old_time,
        replace,
        replace_by_one_of_the_same_time,
        delete_and_create,
    ],
    ids=lambda change: change.__name__,
)
def test_another_content_is_noticed(
    site: Server, folder: Path, change: Callable[[Path], None]
) -> None:
    path = folder / "file"
    path.write_bytes(OLD)
    before = get(site, folder, "file")
    assert before.body == OLD
    change(path)
    becomes(lambda: get(site, folder, "file").body, NEW)
    after = get(site, folder, "file")
    assert after.headers["etag"] != before.headers["etag"]
    # The old tag no longer matches.
    assert get(site, folder, "file", **{"If-None-Match": before.headers["etag"]}).status == 200


def test_changes_within_one_tick_are_noticed(site: Server, folder: Path) -> None:
    """The last write wins, even if its timestamp equals the previous write's timestamp."""
    path = folder / "file"
    for number in range(200):
        path.write_bytes(b"%15d" % number)
        if number % 10 == 0:
            get(site, folder, "file")
    becomes(lambda: get(site, folder, "file").body, b"%15d" % 199)


def test_a_file_that_goes_and_comes(site: Server, folder: Path) -> None:
    path = folder / "file"
    assert get(site, folder, "file").status == 404
    path.write_bytes(OLD)
    assert get(site, folder, "file").body == OLD, "what is not there is not remembered"
    path.unlink()
    becomes(lambda: get(site, folder, "file").status, 404)


def test_a_folder_that_is_renamed(site: Server, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in/file").write_bytes(OLD)
    assert get(site, folder, "in/file").body == OLD
    (folder / "in").rename(folder / "out")
    assert get(site, folder, "out/file").body == OLD
    becomes(lambda: get(site, folder, "in/file").status, 404)


def test_a_link_that_is_turned(site: Server, folder: Path) -> None:
    for name, content in (("old", OLD), ("new", NEW)):
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(content)
    turn(folder / "link", "old")
    assert get(site, folder, "link/file").body == OLD
    turn(folder / "link", "new")
    becomes(lambda: get(site, folder, "link/file").body, NEW)


def test_a_root_that_is_turned(site: Server, top: Path) -> None:
    for version, content in (("one", OLD), ("two", NEW)):
        (top / version / "page").write_bytes(content)
    assert ask(site.url, "/static/page").body == OLD
    try:
        turn(top / "current", "two")
        becomes(lambda: ask(site.url, "/static/page").body, NEW)
    finally:
        turn(top / "current", "one")
    becomes(lambda: ask(site.url, "/static/page").body, OLD)


def turn(link: Path, target: str) -> None:
    """Atomic switch, as in deployments."""
    fresh = link.with_name("turning")
    fresh.symlink_to(target)
    fresh.rename(link)


def test_an_encoded_copy_that_comes_and_goes(site: Server, folder: Path) -> None:
    accept = {"Accept-Encoding": "br"}
    (folder / "file").write_bytes(OLD)
    plain = get(site, folder, "file", **accept)
    assert (plain.body, plain.headers.get("vary")) == (OLD, None)
    (folder / "file.br").write_bytes(b"short")
    becomes(lambda: get(site, folder, "file", **accept).body, b"short")
    assert get(site, folder, "file").headers["vary"] == "accept-encoding"
    # The compressed copy is now outdated.
    (folder / "file").write_bytes(NEW)
    # Older by more than one clock tick.
    os.utime(folder / "file.br", (0, 0))
    becomes(lambda: get(site, folder, "file", **accept).body, NEW)
    (folder / "file.br").write_bytes(b"newer")
    becomes(lambda: get(site, folder, "file", **accept).body, b"newer")
    (folder / "file.br").unlink()
    becomes(lambda: get(site, folder, "file", **accept).body, NEW)


def test_every_reply_is_one_version(site: Server, folder: Path) -> None:
    """A file that is replaced repeatedly: responses never mix versions or their tags."""
    path = folder / "file"
    path.write_bytes(b"%06d" % 0 * 1000)
    ended = threading.Event()

    def replace_often() -> None:
        for number in range(1, 300):
            fresh = folder / "fresh"
            fresh.write_bytes(b"%06d" % number * (1000 + number))
            fresh.rename(path)
        ended.set()

    writer = threading.Thread(target=replace_often)
    writer.start()
    client, tags = Client(site.url), {}
    target = f"/static/{folder.name}/file"
    while not ended.is_set():
        reply = client.ask(target)
        number = int(reply.body[:6])
        assert reply.body == b"%06d" % number * (1000 + number)
        assert tags.setdefault(number, reply.headers["etag"]) == reply.headers["etag"]
    writer.join()
    becomes(lambda: client.ask(target).body[:6], b"000299")
    client.close()
