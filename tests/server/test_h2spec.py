"""HTTP/2 as h2spec checks it (RFC 9113 and, for HPACK, RFC 7541)."""

import os
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.credentials import certificate
from support.rendering import tool
from support.servers import Server

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
"""Cases that may fail, because they race with the reply: the only ones that are tried again.

Each sends the whole header of a valid request whose body is still to come, then, in another write,
what is wrong with its stream, and takes only an error of the stream for a pass. The service waits
for no body: once its reply is complete the server resets the stream with NO_ERROR (RFC 9113 section
8.1) and ignores what was sent before its client knew (section 5.1, closed). Which is first is chance.

No other case can race. Either nothing is wrong with it, or its error is one of the connection, which
the reply does not hide, or its request was whole, so that the stream is closed and not reset: what
follows is an error then as well.
"""

TIMEOUT = 5
"""Seconds that a case of the whole run may wait; h2spec's own 2 are short for a busy machine."""

REPEATS = 20
"""How often a racing case that failed is tried alone; one that is broken fails each time."""


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
    address = urlsplit(start(*flags).url)
    # A reply from a file takes long enough for most of a broken request to come first.
    argv = [str(tool("h2spec")), "--strict", "--path", "/static/4k.txt"]
    argv += ["--host", str(address.hostname), "--port", str(address.port)]
    argv += ["--tls", "--insecure"] if secure else []
    report = tmp_path / "report.xml"
    cases, failed = failures([*argv, "--timeout", str(TIMEOUT)], report)
    assert cases == CASES
    assert not set(failed) - RACING

    def passes(case: str) -> bool:
        cases, failed = failures([*argv, case], report)
        assert cases == 1, case
        return not failed

    lasting = [case for case in failed if not any(passes(case) for _ in range(REPEATS))]
    assert not lasting
