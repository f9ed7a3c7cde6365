"""`GET /static/...` and RFC 9110 sections 8, 12, 13, 14 and 15."""

import email.parser
import email.policy
import gzip
import os
from collections.abc import Callable, Iterator
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path
from urllib.parse import urljoin

import pytest

from stack import becomes
from stack.http import Reply, ask
from stack.replica import Server

TEXT = bytes(range(256)) * 40
"""10,240 bytes that differ by position."""
LARGE = TEXT * 30
"""Exceeds the memory cache."""
CHANGED = 1_000_000_000
DATE = formatdate(CHANGED, usegmt=True)
BEFORE = formatdate(CHANGED - 1, usegmt=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    files = {
        "small.txt": TEXT,
        "large.bin": LARGE,
        "empty.txt": b"",
        "index.html": b"<p>home",
        "folder/index.html": b"<p>folder",
        "no index/file.txt": b"a file",
        ".well-known/security.txt": b"Contact: mailto:nobody@example.com",
        "app.js": b"let x = 1;\n" * 100,
        "app.js.gz": gzip.compress(b"let x = 1;\n" * 100),
        "app.js.br": b"as short as it gets",
        "stale.css": b"p {}",
        "stale.css.gz": gzip.compress(b"p { color: red }"),
        "assets/app-1234.js": b"let y",
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (CHANGED, CHANGED))
    os.utime(root / "stale.css.gz", (CHANGED - 1, CHANGED - 1))
    return root


@pytest.fixture(scope="module")
def site(starter: Callable[..., Server], root: Path) -> Iterator[Server]:
    rules = "assets/*: public, max-age=31536000, immutable; *.txt: max-age=60"
    yield starter("--static.cache-control", rules, static=root)


def get(site: Server, path: str, method: str = "GET", **headers: str) -> Reply:
    """In field names, _ is a hyphen."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask(site.url, f"/static/{path}", method, headers=fields)


BOTH = pytest.mark.parametrize(
    ("path", "content"), [("small.txt", TEXT), ("large.bin", LARGE)], ids=["small", "large"]
)


@BOTH
def test_a_whole_file_has_its_validators(site: Server, path: str, content: bytes) -> None:
    for _ in range(2):  # from disk, then from memory
        reply = get(site, path)
        assert (reply.status, reply.body) == (200, content)
        assert reply.headers["last-modified"] == DATE
        assert reply.headers["accept-ranges"] == "bytes"
        assert reply.headers["content-length"] == str(len(content))
        etag = reply.headers["etag"]
        assert etag.startswith('"') and etag.endswith('"')
        assert "vary" not in reply.headers


@BOTH
def test_head_has_the_fields_of_get(site: Server, path: str, content: bytes) -> None:
    whole, head = get(site, path), get(site, path, "HEAD", Range="bytes=0-9")
    assert (head.status, head.body) == (200, b"")
    varying = {"date", "corelane-lane", "x-request-id"}
    assert {k: v for k, v in head.headers.items() if k not in varying} == {
        k: v for k, v in whole.headers.items() if k not in varying
    }


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html; charset=utf-8"),
        ("small.txt", "text/plain; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("large.bin", "application/octet-stream"),
        ("app.js.gz", "application/gzip"),
    ],
)
def test_media_types(site: Server, path: str, media_type: str) -> None:
    reply = get(site, path)
    assert reply.headers["content-type"] == media_type
    assert "content-encoding" not in reply.headers


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("assets/app-1234.js", "public, max-age=31536000, immutable"),
        ("small.txt", "max-age=60"),
        ("", "no-cache"),
    ],
)
def test_cache_control_by_rule(site: Server, path: str, value: str) -> None:
    reply = get(site, path)
    assert reply.headers["cache-control"] == value
    unchanged = get(site, path, If_None_Match=reply.headers["etag"])
    assert unchanged.headers["cache-control"] == value


# Conditional requests: section 13.


@BOTH
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"If-None-Match": "{etag}"}, 304),
        ({"If-None-Match": "W/{etag}"}, 304),
        ({"If-None-Match": '"other", {etag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-Modified-Since": DATE}, 304),
        ({"If-Modified-Since": BEFORE}, 200),
        ({"If-Modified-Since": "no date"}, 200),
        ({"If-None-Match": '"other"', "If-Modified-Since": DATE}, 200),
        ({"If-Match": "{etag}"}, 200),
        ({"If-Match": "*"}, 200),
        ({"If-Match": '"other"'}, 412),
        ({"If-Match": "W/{etag}"}, 412),
        ({"If-Unmodified-Since": DATE}, 200),
        ({"If-Unmodified-Since": BEFORE}, 412),
        ({"If-Match": "{etag}", "If-Unmodified-Since": BEFORE}, 200),
        ({"If-Match": '"other"', "If-None-Match": "{etag}"}, 412),
        ({"If-Match": "{etag}", "If-None-Match": "{etag}"}, 304),
        ({"If-None-Match": "{etag}", "Range": "bytes=0-0"}, 304),
        ({"If-Match": '"other"', "Range": "bytes=0-0"}, 412),
        ({"If-Match": "{etag}", "Range": "bytes=0-0"}, 206),
    ],
)
def test_preconditions(
    site: Server, path: str, content: bytes, headers: dict[str, str], status: int
) -> None:
    etag = get(site, path).headers["etag"]
    fields = {name: value.format(etag=etag) for name, value in headers.items()}
    for method in ("GET", "HEAD"):
        reply = ask(site.url, f"/static/{path}", method, headers=fields)
        assert reply.status == (200 if method == "HEAD" and status == 206 else status)
        if status == 304:
            assert reply.body == b""
            assert reply.headers["etag"] == etag
            assert "content-length" not in reply.headers
        if status == 412:
            assert reply.headers["content-type"] == "application/problem+json"
            assert method == "HEAD" or b"problem:precondition-failed" in reply.body


# Ranges: section 14.


@BOTH
@pytest.mark.parametrize(
    ("value", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=100-199", 100, 200),
        ("bytes=10000-", 10_000, None),
        ("bytes=-500", -500, None),
        ("bytes=-99999999", 0, None),
        ("bytes=5-99999999999999999999999999", 5, None),
        ("bytes=0-9,5-19", 0, 20),
        ("bytes=99999999-,3-3", 3, 4),
    ],
)
def test_one_range(
    site: Server, path: str, content: bytes, value: str, start: int, end: int | None
) -> None:
    reply = get(site, path, Range=value)
    part = content[start:end]
    assert (reply.status, reply.body) == (206, part)
    first = start % len(content)
    last = first + len(part) - 1
    assert reply.headers["content-range"] == f"bytes {first}-{last}/{len(content)}"
    assert reply.headers["etag"] == get(site, path).headers["etag"]


@BOTH
def test_several_ranges(site: Server, path: str, content: bytes) -> None:
    reply = get(site, path, Range="bytes=0-9, 5000-5099, -1")
    assert reply.status == 206
    assert "content-range" not in reply.headers
    head = f"content-type: {reply.headers['content-type']}\r\n\r\n".encode()
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    parts = list(parser.parsebytes(head + reply.body).iter_parts())
    length = len(content)
    wanted = [(0, 10), (5000, 5100), (length - 1, length)]
    assert [part["content-range"] for part in parts] == [
        f"bytes {first}-{end - 1}/{length}" for first, end in wanted
    ]
    media_type = get(site, path).headers["content-type"]
    # The parser quotes parameters.
    assert {part["content-type"].replace('"', "") for part in parts} == {media_type}
    # Raw bytes, because the parser decodes text.
    for first, end in wanted:
        mark = f"content-range: bytes {first}-{end - 1}/{length}\r\n\r\n".encode()
        assert reply.body.partition(mark)[2].startswith(content[first:end] + b"\r\n--")


@BOTH
@pytest.mark.parametrize(
    "value",
    ["bytes=99999999-", "bytes=-0", "bytes=0-,0-,0-,0-", "bytes=" + ",".join(["0-0"] * 17)],
)
def test_ranges_that_are_refused(site: Server, path: str, content: bytes, value: str) -> None:
    reply = get(site, path, Range=value)
    assert reply.status == 416
    assert reply.headers["content-range"] == f"bytes */{len(content)}"
    assert b"problem:range-not-satisfiable" in reply.body


@BOTH
@pytest.mark.parametrize("value", ["bytes=9-0", "bytes=x", "lines=0-1", "bytes", "bytes=0-1;2-3"])
def test_ranges_that_are_ignored(site: Server, path: str, content: bytes, value: str) -> None:
    reply = get(site, path, Range=value)
    assert (reply.status, reply.body) == (200, content)


@BOTH
@pytest.mark.parametrize(
    ("condition", "status"),
    [("{etag}", 206), ("W/{etag}", 200), ('"other"', 200), (DATE, 206), (BEFORE, 200), ("x", 200)],
)
def test_if_range(site: Server, path: str, content: bytes, condition: str, status: int) -> None:
    etag = get(site, path).headers["etag"]
    reply = get(site, path, Range="bytes=0-4", If_Range=condition.format(etag=etag))
    assert (reply.status, reply.body) == (status, content[:5] if status == 206 else content)


def test_an_empty_file_has_no_range(site: Server) -> None:
    assert (get(site, "empty.txt").status, get(site, "empty.txt").body) == (200, b"")
    assert get(site, "empty.txt", Range="bytes=0-").status == 416
    assert get(site, "empty.txt", Range="bytes=-5").status == 200


# Precompressed files: section 12.5.3.


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip", "gzip"),
        ("gzip;q=1, br;q=0.5", "gzip"),
        ("br;q=0, gzip;q=0", None),
        ("zstd", None),
        ("identity, br;q=0.5", None),
        ("identity;q=0, zstd", None),
    ],
)
def test_encoded_copies(site: Server, root: Path, accept: str, coding: str | None) -> None:
    reply = get(site, "app.js", Accept_Encoding=accept)
    suffix = {"br": ".br", "gzip": ".gz", None: ""}[coding]
    assert reply.body == (root / f"app.js{suffix}").read_bytes()
    assert reply.headers.get("content-encoding") == coding
    assert reply.headers["vary"] == "accept-encoding"
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    etag = reply.headers["etag"]
    unchanged = get(site, "app.js", Accept_Encoding=accept, If_None_Match=etag)
    assert (unchanged.status, unchanged.headers["vary"]) == (304, "accept-encoding")
    part = get(site, "app.js", Accept_Encoding=accept, Range="bytes=2-5", If_Range=etag)
    assert (part.status, part.body) == (206, reply.body[2:6])
    assert part.headers.get("content-encoding") == coding


def test_each_copy_has_an_etag_of_its_own(site: Server) -> None:
    accepts = ("identity", "gzip", "br")
    assert len({get(site, "app.js", Accept_Encoding=a).headers["etag"] for a in accepts}) == 3


def test_a_copy_that_is_older_than_its_file_is_left_alone(site: Server) -> None:
    reply = get(site, "stale.css", Accept_Encoding="gzip")
    assert (reply.body, reply.headers.get("content-encoding")) == (b"p {}", None)


# Folders.


@pytest.mark.parametrize(("path", "body"), [("", b"<p>home"), ("folder/", b"<p>folder")])
def test_a_folder_shows_its_index(site: Server, path: str, body: bytes) -> None:
    assert (get(site, path).status, get(site, path).body) == (200, body)


def test_a_folder_without_a_slash_redirects_to_itself(site: Server) -> None:
    for path in ("folder", "no%20index", "%66older"):
        reply = get(site, path)
        assert reply.status == 308
        there = urljoin(f"{site.url}/static/{path}", reply.headers["location"])
        assert there == f"{site.url}/static/{path.replace('%66', 'f')}/"
    # Cacheable, including the query.
    assert get(site, "folder?x=1&y=%2F?").headers["location"] == "./folder/?x=1&y=%2F?"


@pytest.mark.parametrize("query", ["", "?x=1"])
def test_the_root_without_a_slash_redirects_to_itself(site: Server, query: str) -> None:
    reply = ask(site.url, f"/static{query}")
    assert (reply.status, reply.headers["location"]) == (308, f"./static/{query}")
    assert ask(site.url, f"/static{query}", "POST").status == 405
    assert ask(site.url, "/statics").status == 404


@pytest.mark.parametrize("path", ["no%20index/", "none/", "small.txt/", "folder/none"])
def test_no_folder_is_listed(site: Server, path: str) -> None:
    assert get(site, path).status == 404


def test_well_known_files_are_served(site: Server) -> None:
    assert get(site, ".well-known/security.txt").status == 200


def test_a_date_is_never_in_the_future(site: Server, root: Path) -> None:
    later = root / "later.txt"
    later.write_text("from another clock")
    os.utime(later, (2**33, 2**33))
    reply = get(site, "later.txt")
    assert parsedate_to_datetime(reply.headers["last-modified"]) <= parsedate_to_datetime(
        reply.headers["date"]
    )
    os.utime(later, (-1000, -1000))
    long_ago = "Thu, 01 Jan 1970 00:00:00 GMT"
    becomes(lambda: get(site, "later.txt").headers["last-modified"], long_ago)
