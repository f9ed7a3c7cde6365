"""Runs k6 scenarios as in a container, with only `scenarios` and `lib`; and failing servers."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from loadtests.k6 import failed_thresholds
from stack import REPOSITORY
from stack.http import ask
from stack.replica import Server
from tools import resolve

THRESHOLDS_FAILED = 99
"""k6 exit code."""

SMALL = {
    "smoke": {"RATE": "45", "DURATION": "1s"},
    "load": {"RATE": "10", "DURATION": "1s"},
    "stress": {"RATE": "10", "FACTOR": "3", "DURATION": "2s"},
    "spike": {"RATE": "10", "FACTOR": "3", "DURATION": "2s"},
    "soak": {"RATE": "10", "DURATION": "1s"},
    "breakpoint": {"RATE": "20", "DURATION": "1s", "STEPS": "4", "MAX_RATE": "60"},
    "s0-direct-vs-gateway": {"RATE": "15", "DURATION": "2s"},
    "s1-c10k-static": {"VUS": "150"},
    "s2-cpu-matrix": {"VUS": "2", "DURATION": "1s"},
    "s3-mixed-projects": {"RATE": "15", "DURATION": "1s", "VUS": "10", "ROUNDS": "2"},
    "s3-c10k-20000": {"VUS": "150", "ROUNDS": "1"},
    "s4-keepalive-div": {"RATE": "20", "DURATION": "3s"},
}
"""Finishes within seconds, even on a busy machine."""

PATIENT = {"P99_MS": "20000"}

TOKEN = "scenarios-0123456789abcdef"
"""Token for writing projects on a failing server."""

ROUTES = ("/", "/hello", "/div/{n}", "/work", "/static/", "/static/{*path}", "/projects/{id}")
"""All routes used by scenarios except project creation."""

AT_ONCE = 6
LONGEST = 180


@dataclass(frozen=True)
class Ended:
    """Exit code, summary and output of k6."""

    exit_code: int
    data: dict
    said: str

    @property
    def failed(self) -> list[str]:
        return failed_thresholds(self.data)

    def value(self, metric: str, key: str) -> float:
        return self.data["metrics"][metric]["values"][key]


class Container:
    """Runs the scripts with no environment except a run's variables.

    Runs mostly wait, so several run concurrently.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pool = ThreadPoolExecutor(AT_ONCE)
        self.k6 = resolve.tool("k6")
        for name in ("scenarios", "lib"):
            shutil.copytree(REPOSITORY / "loadtests" / name, folder / name)

    def run(self, scenario: str, **variables: str) -> Ended:
        """Prints the summary to standard output."""
        argv = [self.k6, "run", "--address", "", "--quiet", "--no-usage-report", "--no-color"]
        result = subprocess.run(
            [*argv, f"scenarios/{scenario}.js"],
            cwd=self.folder,
            env={"HOME": str(self.folder), "PATH": os.environ["PATH"], **variables},
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
        return Ended(result.returncode, json.loads(lines[-1]) if lines else {}, result.stderr)

    def begin(self, scenario: str, **variables: str) -> Future[Ended]:
        return self.pool.submit(self.run, scenario, **variables)

    def begin_all(self, **variables: str) -> dict[str, Future[Ended]]:
        return {
            name: self.begin(name, **PATIENT, **small, **variables) for name, small in SMALL.items()
        }


def failing_server(
    run: Callable[..., Server], folder: Path, routes: Sequence[str], share: float, **effect: dict
) -> Server:
    """One lane, projects, and a fault on these routes."""
    tokens = folder / "tokens"
    tokens.write_text(f"test sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
    flags = ["--database.path", str(folder / "projects.db"), "--auth.tokens", str(tokens)]
    server = run("--faults", "on", "--lanes", "1", *flags)
    faults = [{"route": route, "share": share, "expires_in": "10m", **effect} for route in routes]
    body = json.dumps({"seed": 1, "faults": faults}).encode()
    assert ask(server.admin, "/faults", "PUT", body=body).status < 300
    return server


def bench(name: str, out: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a benchmark. The caller checks the result."""
    argv = [sys.executable, "loadtests/bench", name, "--out", out, *arguments]
    argv = [str(argument) for argument in argv]
    return subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
