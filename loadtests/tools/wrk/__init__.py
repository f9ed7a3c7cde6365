"""S2 and S3 with wrk: closed loops of so many connections.

Their own clients are not known in full. Of S2, wrk keeps connections and work. Of S3, it keeps the page, the
load and the save on as many connections as users, but not ten rounds each. Of the 20,000 at once, it opens as
many connections as one process can hold, each of which repeats its request at once.
"""

import json
import os
import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from loadtests.record import ALL, Figure, Part, Route
from loadtests.report.collect import percents
from loadtests.target import Target
from loadtests.tools.outcome import Job, Outcome, via
from tools import resolve
from tools.errors import ToolError

FOLDER = Path(__file__).resolve().parent
THREADS = 2
DENSE = 10_000
"""Requests for which the curve of a run would have as many points as those of other tools."""

CELLS = tuple(
    (connections, ops)
    for connections in (1, 20, 1000)
    for ops in (1_000, 100_000, 5_000_000)
    # As in the scenario: what waits on all connections together is some tenths of a second.
    if connections * ops <= 200_000_000
)

CLOSED = "wrk asks again when it was answered: while the server is slow it asks less, so that its tail is flattered."


def matrix(job: Job) -> Outcome:
    """S2: connections and work per request."""
    cells = dict.fromkeys((min(count, job.connections(count)), ops) for count, ops in CELLS)
    seconds = max(1, job.seconds(35) // len(cells))
    parts = []
    for connections, ops in cells:
        url = f"{job.target.gateway}/work?ops={ops}"
        part = _part(job, f"c{connections}-ops{ops}", f"work-{ops}", url, connections, seconds)
        if part.requests:
            ms = 1000 * part.seconds / part.requests
            part.figures["ms_per_request"] = Figure(round(ms, 4), "ms")
        parts.append(part)
    return Outcome(_version(), parts, "gateway", [CLOSED])


def projects(job: Job) -> Outcome:
    """S3's users: a page, a load and a save."""
    target, connections = job.target, job.connections(1000)
    if not target.token:
        raise ToolError("there is no token: S3's users save projects (TOKEN, or make up)")
    with saved(target, min(connections, 100)) as files:
        variables = {"FILES": str(files), "TOKEN": target.token}
        part = _part(
            job, ALL, ALL, target.gateway, connections, job.seconds(20), "projects.lua", variables
        )
    return Outcome(_version(), [part], "gateway", [CLOSED])


def at_once(job: Job) -> Outcome:
    """S3's 20,000 requests: as many connections as possible, each with requests for the file of 4 KiB."""
    connections = job.connections(9_900)
    url = f"{job.server}/static/4k.txt"
    part = _part(job, ALL, "static-4k", url, connections, job.seconds(10))
    part.figures["at_once"] = Figure(connections, "requests")
    return Outcome(_version(), [part], via(job), [CLOSED])


def _part(
    job: Job,
    name: str,
    route: str,
    url: str,
    connections: int,
    seconds: int,
    script: str = "report.lua",
    variables: Mapping[str, str] = {},
) -> Part:
    """One run of wrk."""
    result = job.folder / "wrk.json"
    threads = min(THREADS, connections)
    argv = [str(_program()), "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s"]
    argv += ["--timeout", "60s", "--script", str(FOLDER / script), url]
    told = {
        "RESULT": str(result),
        "REPORT": str(FOLDER / "report.lua"),
        "PERCENTS": ",".join(map(str, percents(DENSE))),
    }
    with (job.folder / "wrk.log").open("a") as log:
        ended = subprocess.run(
            argv, env={**os.environ, **told, **variables}, stdout=log, stderr=log, check=False
        )
    if ended.returncode or not result.exists():
        raise ToolError(f"wrk gave up: {(job.folder / 'wrk.log').read_text().strip()[-500:]}")
    found = json.loads(result.read_text())
    result.unlink()
    return _read(name, route, found)


def _read(name: str, route: str, found: dict) -> Part:
    """A part of what report.lua wrote; wrk counts a wrong status as a request, and lost ones separately."""
    errors, curve = found["errors"], found["curve"]
    lost = sum(count for kind, count in errors.items() if kind != "status")
    failed, requests = errors["status"] + lost, found["requests"] + lost
    at = dict(map(tuple, curve))
    latency = {"min": found["min_ms"], "mean": found["mean_ms"], "max": at[100.0]}
    for key, percent in {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}.items():
        latency[key] = at[percent]
    names = dict.fromkeys([ALL, route])
    return Part(
        name=name,
        seconds=round(found["seconds"], 3),
        requests=requests,
        failed=failed,
        requests_per_second=round(found["requests"] / found["seconds"], 3),
        routes={each: Route(requests, failed, dict(latency)) for each in names} if requests else {},
        percentiles={each: curve for each in names} if requests else {},
    )


def _program() -> Path:
    return resolve.ensure(["wrk"])["wrk"]


def _version() -> str:
    """wrk tells its version and exits 1."""
    said = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"\d+\.\d+(\.\d+)?", said.stdout)
    return match[0] if match else ""


SIZE = 5_700
"""Bytes of a document; the saves of the published test sent about as many."""

TASKS = 20


@contextmanager
def saved(target: Target, count: int) -> Iterator[Path]:
    """A folder with the ids of so many projects, and the body of a save."""
    task = {"title": "lane", "done": False, "notes": "x" * (SIZE // TASKS - 45)}
    body = json.dumps(
        {"name": "wrk", "description": "", "status": "active", "tags": [], "tasks": [task] * TASKS}
    )
    ids: list[str] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            ids.extend(_ask(target, "POST", "/projects", body)["id"] for _ in range(count))
            (Path(folder) / "ids").write_text("".join(f"{each}\n" for each in ids))
            (Path(folder) / "body").write_text(body)
            yield Path(folder)
    finally:
        for each in ids:
            _ask(target, "DELETE", f"/projects/{each}")


def _ask(target: Target, method: str, path: str, body: str = "") -> dict:
    request = urllib.request.Request(target.gateway + path, method=method)
    request.add_header("Authorization", f"Bearer {target.token}")
    if body:
        request.data = body.encode()
        request.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as reply:
            text = reply.read()
    except OSError as error:
        raise ToolError(f"{method} {target.gateway}{path}: {error}") from None
    return json.loads(text) if text else {}
