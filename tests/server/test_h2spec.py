"""HTTP/2 as h2spec checks it (RFC 9113 and, for HPACK, RFC 7541)."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stack import PATIENCE
from stack.credentials import certificate
from stack.http import ask
from stack.replica import Server
from tools.resolve import tool

CASES = 146
"""All cases of the pinned h2spec, the strict ones included."""

RACING = {
    "http2/5.1/8",  # RST_STREAM, then DATA
    "http2/5.1/9",  # RST_STREAM, then HEADERS
    "http2/6.9.1/3",  # WINDOW_UPDATEs to a window of the stream above 2^31-1
    "http2/8.1/1",  # HEADERS without END_STREAM as trailers
    "http2/8.1.2.1/3",  # trailers with a pseudo-header field
    "http2/8.1.2.6/1",  # DATA of another length than content-length
    "http2/8.1.2.6/2",  # the same in two frames
}
"""Cases that race with the reply: they run where there is none.

Each sends the whole header of a valid request whose body is still to come, then, in another write,
what is wrong with its stream, and takes only an error of the stream for a pass. The service waits
for no body: once its reply is complete the server resets the stream with NO_ERROR (RFC 9113 section
8.1) and ignores what was sent before its client knew (section 5.1, closed). Which is first is chance.

No other case can race. Either nothing is wrong with it, or its error is one of the connection, which
the reply does not hide, or its request was whole, so that the stream is closed and not reset: what
follows is an error then as well.
"""

HELD = {"route": "/hello", "share": 1, "latency": {"fixed": "1m"}, "expires_in": "1h"}
"""The fault that keeps back a reply for longer than a case takes."""


GROUPS = {"Generic": "generic", "Hypertext": "http2", "HPACK": "hpack"}
"""The first word of each group's title, and its name in the name of a case."""


def cases() -> list[str]:
    """The names of all cases, from the titles that h2spec prints."""
    argv = [str(tool("h2spec")), "--strict", "--dryrun"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    group = section = ""
    found = []
    for line in printed.splitlines():
        if title := re.match(r"([A-Z][A-Za-z]*)", line):
            group = GROUPS[title[1]]
        elif title := re.match(r" +([\d.]+)\. ", line):
            section = title[1]
        elif title := re.match(r" +(\d+): ", line):
            found.append(f"{group}/{section}/{title[1]}")
    return found


def failures(argv: list[str], report: Path) -> tuple[int, list[str]]:
    """Runs h2spec: how many cases there were, and those that failed, as it names them."""
    argv = [*argv, "--junit-report", str(report)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert report.exists(), done.stdout + done.stderr
    order: Counter[str] = Counter()
    failed = []
    for case in ET.parse(report).iter("testcase"):
        section = case.get("package", "")
        order[section] += 1
        assert case.find("skipped") is None, f"skipped: {case.get('classname')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{section}/{order[section]}")
    os.unlink(report)
    return order.total(), failed


@pytest.mark.parametrize("secure", [False, True], ids=["h2c", "tls"])
def test_every_case_passes(start: Callable[..., Server], secure: bool, tmp_path: Path) -> None:
    flags = []
    if secure:
        shown, key = certificate(tmp_path, "server", "ec")
        flags = ["--tls.certificate", str(shown), "--tls.key", str(key)]
    server = start(*flags, "--faults", "on")
    address = urlsplit(server.url)
    argv = [str(tool("h2spec")), "--strict", "--path", HELD["route"]]
    # h2spec's own 2 s are short for a busy machine.
    argv += ["--timeout", str(round(PATIENCE))]
    argv += ["--host", str(address.hostname), "--port", str(address.port)]
    argv += ["--tls", "--insecure"] if secure else []
    report = tmp_path / "report.xml"
    every = cases()
    assert len(every) == CASES
    assert set(every) > RACING
    others = [case for case in every if case not in RACING]
    assert failures([*argv, *others], report) == (CASES - len(RACING), [])
    body = json.dumps({"faults": [HELD]}).encode()
    assert ask(server.admin, "/faults", "PUT", body=body).status == 200
    assert failures([*argv, *sorted(RACING)], report) == (len(RACING), [])
