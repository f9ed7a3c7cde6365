"""S0 and S1 with ab (ApacheBench)."""

import csv
from pathlib import Path

from loadtests.bench import ab
from loadtests.record import ALL, Part
from loadtests.report.collect import Collector
from loadtests.tools.outcome import Job, Outcome, via
from tools import resolve, table, versions
from tools.errors import ToolError

PERCENTS = {"p50": "50", "p90": "90", "p95": "95", "p99": "99", "max": "100"}
FINE = 1000
"""From so many requests on, ab's own percentiles are finer than the milliseconds of its list of requests."""

MOST = 19_000
"""Connections that one process may have open, with some spare files."""


def direct_and_gateway(job: Job) -> Outcome:
    """S0: `ab -n 50000 -c 100` at one replica, and through the gateway."""
    if not job.target.direct:
        raise ToolError("DIRECT_URL is not set: S0 compares one replica with the gateway")
    urls = {"direct": job.target.direct, "gateway": job.target.gateway}
    parts = [
        _part(job, name, f"{url}/hello", "hello", 50_000, job.connections(100))
        for name, url in urls.items()
    ]
    return Outcome(_version(), parts, "gateway")


def ten_thousand(job: Job) -> Outcome:
    """S1: `ab -n 13000 -c 10000` of the page, at the server itself."""
    # The server's own limit of connections is 10,000; the gateway's probes have some of them.
    connections = min(job.connections(9_900), MOST)
    requests = round(1.3 * connections)
    part = _part(job, ALL, f"{job.server}/static/", "static-index", requests, connections)
    return Outcome(_version(), [part], via(job))


def _part(job: Job, name: str, url: str, route: str, requests: int, connections: int) -> Part:
    """One run of ab. A connection for each request, as S0 and S1 had it."""
    ab.settle(int(url.split("/")[2].rpartition(":")[2] or 80))
    file = job.folder / f"ab-{name}.tsv"
    limit = job.limit()
    # -r: a broken connection counts as an error and does not end the run.
    more = ["-r", "-g", str(file), *(["-t", str(limit)] if limit else [])]
    found = ab.run(
        _program(), url, requests=requests, concurrency=connections, keep_alive=False, more=more
    )
    part = _timed(name, route, file)
    file.unlink()
    part.seconds = found.seconds
    part.requests_per_second = found.requests_per_second
    part.requests, part.failed = found.complete, found.wrong
    for each in part.routes.values():
        each.requests, each.failed = found.complete, found.wrong
        if found.complete >= FINE:
            each.latency_ms |= {
                key: found.percentiles[percent] for key, percent in PERCENTS.items()
            }
    return part


def _timed(name: str, route: str, file: Path) -> Part:
    """The requests of a file for gnuplot (-g): when each began, and its milliseconds."""
    collector = Collector()
    with file.open(newline="") as rows:
        times = [
            (int(row["seconds"]), float(row["ttime"]))
            for row in csv.DictReader(rows, delimiter="\t")
        ]
    first = min((at for at, _ in times), default=0)
    for at, ms in times:
        collector.request(name, route, at - first, ms, failed=False)
    parts = collector.parts()
    return parts[0] if parts else Part(name, 0, 0, 0, 0)


def _program() -> Path:
    return resolve.ensure(["ab"])["ab"]


def _version() -> str:
    return versions.remembered(_program(), table.find("ab"))
