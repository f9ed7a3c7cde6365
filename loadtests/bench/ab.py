"""Runs ab (ApacheBench) and parses its output."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import ToolError

PERCENTS = (50, 99, 100)


@dataclass(frozen=True)
class Result:
    """Times are in milliseconds by percentage of the requests.

    The percentages are strings, because JSON has no other keys.
    """

    seconds: float
    requests_per_second: float
    complete: int
    failed: int
    write_errors: int
    non_2xx: int
    percentiles: dict[str, float]

    @property
    def wrong(self) -> int:
        """Requests without the right response. A rejection differs in length from the first
        response, so ab counts it twice.
        """
        return max(self.failed, self.non_2xx) + self.write_errors


def run(
    program: Path,
    url: str,
    *,
    requests: int,
    concurrency: int,
    before: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Result:
    """Runs ab once: `before` precedes the command, and `more` contains additional arguments."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "percentiles.csv"
        argv = [*before, str(program), "-q", *more, "-n", str(requests), "-c", str(concurrency)]
        argv += ["-e", str(file), url]
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            end = "\n".join(f"    {line}" for line in result.stderr.strip().splitlines()[-5:])
            raise ToolError(f"ab gave up on {url} (exit {result.returncode}):\n{end}")
        return parse(result.stdout, file.read_text())


def parse(output: str, csv: str) -> Result:
    """`csv` is ab's table of percentiles (-e), in microsecond steps."""
    return Result(
        seconds=_number(output, "Time taken"),
        requests_per_second=_number(output, "Requests per second"),
        complete=int(_number(output, "Complete requests")),
        failed=int(_number(output, "Failed requests")),
        write_errors=int(_number(output, "Write errors", absent=0)),
        non_2xx=int(_number(output, "Non-2xx responses", absent=0)),
        percentiles=_percentiles(csv),
    )


def _number(output: str, label: str, absent: float | None = None) -> float:
    """ab omits some lines if their number is 0."""
    match = re.search(rf"^{re.escape(label)}[^:\n]*:\s+([\d.]+)", output, re.MULTILINE)
    if match:
        return float(match[1])
    if absent is None:
        raise ToolError(f"ab printed no line {label!r}; its output was:\n{output}")
    return absent


def _percentiles(csv: str) -> dict[str, float]:
    rows = dict(line.split(",") for line in csv.splitlines()[1:])
    return {str(percent): float(rows[str(percent)]) for percent in PERCENTS}
