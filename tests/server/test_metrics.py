"""The series of the admin port, as Prometheus takes them."""

import re
import subprocess
import sys

from support import REPOSITORY, eventually
from support.client import ask
from support.servers import Server


def classic(text: str) -> str:
    """OpenMetrics as the older text format, which promtool reads: a counter's name ends in _total."""
    counters = re.findall(r"^# TYPE (\w+) counter$", text, re.MULTILINE)
    assert counters
    return re.sub(
        rf"^# (HELP|TYPE) ({'|'.join(counters)}) ", r"# \1 \2_total ", text, flags=re.MULTILINE
    )


def test_promtool_finds_nothing_wrong(server: Server) -> None:
    for path in ("/hello", "/div/4", "/none"):
        ask(server.url, path)
    eventually(lambda: any('phase="write"' in series for series in server.metrics()))
    reply = ask(server.admin, "/metrics")
    assert reply.headers["content-type"].startswith("application/openmetrics-text")
    text = reply.body.decode()
    assert text.endswith("# EOF\n")
    argv = [sys.executable, "hack/tools", "run", "promtool", "check", "metrics"]
    check = subprocess.run(
        argv, cwd=REPOSITORY, input=classic(text), capture_output=True, text=True, check=False
    )
    assert (check.returncode, check.stdout, check.stderr) == (0, "", "")
