"""HTTP/2 as h2spec checks it (RFC 9113 and, for HPACK, RFC 7541)."""

import os
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.certificates import certificate
from support.rendering import tool
from support.servers import Server

CASES = 146
"""All cases of the pinned h2spec, the strict ones included."""

REPEATS = 20
"""How often a case that failed is tried alone.

Some cases break a request off, or send a wrong body after its header, and expect an error. A
server may answer before the body has come and then ignores what follows (RFC 9113 section 8.1).
Which is first is chance, and a case that fails for another reason fails each time.
"""


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
    cases, failed = failures(argv, report)
    assert cases == CASES
    lasting = [
        case for case in failed if all(failures([*argv, case], report)[1] for _ in range(REPEATS))
    ]
    assert not lasting
