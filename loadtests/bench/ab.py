"""Runs ab (ApacheBench) and reads what it prints."""

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools import progress
from tools.errors import ToolError

PERCENTS = (50, 66, 75, 80, 90, 95, 98, 99, 100)
"""The rows of ab's own table of percentiles."""

TIME_WAIT = "06"
"""TCP_TIME_WAIT in /proc/net/tcp (include/net/tcp_states.h)."""

MOST_HELD = 1000
DEADLINE = 90.0


@dataclass(frozen=True)
class Result:
    """What one run of ab measured; times in milliseconds by percent of the requests.

    The percents are texts, because JSON has no other keys.
    """

    seconds: float
    requests_per_second: float
    complete: int
    failed: int
    write_errors: int
    non_2xx: int
    kept_alive: int
    percentiles: dict[str, float]
    not_connected: int = 0

    @property
    def wrong(self) -> int:
        """Requests without the right answer. A refusal is of another length than the first reply, so ab counts it
        twice."""
        return max(self.failed, self.non_2xx) + self.write_errors


def run(
    program: Path,
    url: str,
    *,
    requests: int,
    concurrency: int,
    keep_alive: bool,
    before: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Result:
    """Runs ab once: after the words `before`, with `more` arguments."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "percentiles.csv"
        argv = [*before, str(program), "-q", *more, *arguments(requests, concurrency, keep_alive)]
        argv += ["-e", str(file), url]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            end = "\n".join(f"    {line}" for line in result.stderr.strip().splitlines()[-5:])
            raise ToolError(f"ab gave up on {url} (exit {result.returncode}):\n{end}")
        return parse(result.stdout, file.read_text())


def arguments(requests: int, concurrency: int, keep_alive: bool) -> list[str]:
    """The arguments that say what is measured."""
    return [*(["-k"] if keep_alive else []), "-n", str(requests), "-c", str(concurrency)]


def parse(output: str, csv: str) -> Result:
    """Reads ab's output, and its table of percentiles (-e), which is in microsecond steps."""
    return Result(
        seconds=_number(output, "Time taken"),
        requests_per_second=_number(output, "Requests per second"),
        complete=int(_number(output, "Complete requests")),
        failed=int(_number(output, "Failed requests")),
        write_errors=int(_number(output, "Write errors", absent=0)),
        non_2xx=int(_number(output, "Non-2xx responses", absent=0)),
        kept_alive=int(_number(output, "Keep-Alive requests", absent=0)),
        percentiles=_percentiles(csv),
        not_connected=int(_of_failed(output, "Connect")),
    )


def _of_failed(output: str, kind: str) -> str:
    """How many of the failed requests were of this kind; ab says so only where some failed."""
    match = re.search(rf"^ +\(.*\b{kind}: (\d+)", output, re.MULTILINE)
    return match[1] if match else "0"


def _number(output: str, label: str, absent: float | None = None) -> float:
    """The number of a line that starts with this label; ab prints some lines only when their number is not 0."""
    match = re.search(rf"^{re.escape(label)}[^:\n]*:\s+([\d.]+)", output, re.MULTILINE)
    if match:
        return float(match[1])
    if absent is None:
        raise ToolError(f"ab printed no line {label!r}; its output was:\n{output}")
    return absent


def _percentiles(csv: str) -> dict[str, float]:
    rows = dict(line.split(",") for line in csv.splitlines()[1:])
    return {str(percent): float(rows[str(percent)]) for percent in PERCENTS}


def settle(port: int) -> None:
    """Waits until few local ports are held by finished connections to `port`.

    The side that closes first keeps the connection in TIME_WAIT for a minute. The servers close first here; a client
    that did would hold its ports, and the next run would have fewer.
    """
    deadline = time.monotonic() + DEADLINE
    while (held := _held(port)) > MOST_HELD:
        if time.monotonic() > deadline:
            raise ToolError(f"{held} local ports are held by finished connections to port {port}")
        progress.say("ports", f"waiting: {held} are held by finished connections to port {port}")
        time.sleep(5)


def _held(port: int) -> int:
    end = f":{port:04X}"
    with open("/proc/net/tcp") as table:
        rows = (line.split() for line in table)
        return sum(row[3] == TIME_WAIT and row[2].endswith(end) for row in rows)
