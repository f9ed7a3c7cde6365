"""h2spec: HTTP/2 (RFC 9113) and HPACK (RFC 7541)."""

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
"""All cases of the pinned version, including strict ones."""

RACING = {
    "http2/5.1/8",  # RST_STREAM, then DATA
    "http2/5.1/9",  # RST_STREAM, then HEADERS
    "http2/6.9.1/3",  # WINDOW_UPDATEs to a stream window above 2^31-1
    "http2/8.1/1",  # HEADERS without END_STREAM as trailers
    "http2/8.1.2.1/3",  # pseudo-header fields in trailers
    "http2/8.1.2.6/1",  # DATA of another length than content-length
    "http2/8.1.2.6/2",  # the same in two frames
}
"""Cases that race with the response and therefore run against a held response.

Each sends a valid request head with a pending body, then an error in a second write, and only
accepts a stream error. The service does not wait for bodies: after its response the server resets
the stream with NO_ERROR (RFC 9113 section 8.1) and ignores frames sent before the client knew
(section 5.1, closed).

The other cases cannot race: they contain no error, a connection error, or a complete request, so
the stream is closed without a reset and later frames are errors.
"""

HELD = {"route": "/hello", "share": 1, "latency": {"fixed": "1m"}, "expires_in": "1h"}
"""A fault that delays the response for longer than a case takes."""


GROUPS = {"Generic": "generic", "Hypertext": "http2", "HPACK": "hpack"}
"""Group titles start with these words; values are used in case names."""


def cases() -> list[str]:
    """Case names, from the titles printed by h2spec."""
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
    """Runs h2spec; returns the number of cases and the failed ones."""
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
    # The default of 2 s is too short for a busy machine.
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
