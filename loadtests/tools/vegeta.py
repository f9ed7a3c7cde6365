"""S4 with vegeta: `/div/4` at full rate, by 4 workers."""

import csv
import subprocess
from pathlib import Path

from loadtests.record import Part
from loadtests.report.collect import Collector
from loadtests.tools.outcome import Job, Outcome
from tools import resolve, table, versions
from tools.errors import ToolError

ROUTE = "div"
LOG = "vegeta.log"
ANSWER = "Mg=="
"""The body `2` in base64, as vegeta writes it."""

MODES = {"close": "false", "keep-alive": "true"}
"""Whether connections are used again, by the name of the part."""


def full_rate(job: Job) -> Outcome:
    """S4: as many requests as 4 workers can, without keep-alive and with it."""
    program = resolve.ensure(["vegeta"])["vegeta"]
    parts = [_part(job, program, name) for name in MODES]
    version = versions.remembered(program, table.find("vegeta"))
    return Outcome(version, parts, "gateway")


def _part(job: Job, program: Path, name: str) -> Part:
    """One attack. Its results come as CSV while it runs, so that none is kept twice."""
    workers = str(job.connections(4))
    attack = [
        *(str(program), "attack", "-rate=0", f"-workers={workers}", f"-max-workers={workers}"),
        *(f"-duration={job.seconds(30)}s", f"-keepalive={MODES[name]}", "-redirects=-1"),
    ]
    collector = Collector()
    with (
        (job.folder / LOG).open("a") as log,
        subprocess.Popen(
            attack, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as attacker,
        subprocess.Popen(
            [str(program), "encode", "-to", "csv"],
            stdin=attacker.stdout,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as encoder,
    ):
        attacker.stdout.close()
        attacker.stdin.write(f"GET {job.target.gateway}/div/4\n".encode())
        attacker.stdin.close()
        _gather(collector, name, encoder.stdout)
        encoder.wait()
        attacker.wait()
    said = (job.folder / LOG).read_text().strip()
    if attacker.returncode or encoder.returncode:
        raise ToolError(f"vegeta gave up: {said[-500:]}")
    parts = collector.parts()
    return parts[0] if parts else Part(name, 0, 0, 0, 0)


def _gather(collector: Collector, name: str, lines: object) -> None:
    """Rows of `vegeta encode`: nanoseconds of begin and latency, status, body in base64."""
    first = None
    for row in csv.reader(lines):
        at, status, latency, body = int(row[0]), row[1], int(row[2]), row[6]
        first = at if first is None else first
        right = status == "200" and body == ANSWER
        collector.check(name, "div: status 200 and body 2", right)
        collector.request(name, ROUTE, max(0, at - first) / 1e9, latency / 1e6, failed=not right)
