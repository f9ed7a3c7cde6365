"""What `corelane capacity` says of a replica, from two looks at its metrics."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.capacity.cells import Cell
from loadtests.bench.capacity.replica import Seen
from tools.errors import ToolError


@dataclass(frozen=True)
class Prediction:
    """Of one cell, calibrated at a low load."""

    knee: float
    """Requests per second."""
    limit: str
    rate: float
    """The load for which the times are."""
    p99_ms: float
    """Simulated, over all requests."""
    closed_form_p99_ms: float
    said: dict
    """All that the command printed."""


def predicted(
    program: Path, cell: Cell, seen: tuple[Seen, Seen], *, used: float, outside: float, folder: Path
) -> Prediction:
    """Asks the command for the knee, and for the times at the share `used` of it."""
    files = []
    for name, look in zip(("before", "after"), seen, strict=True):
        file = folder / f"{cell.name}-{name}.prom"
        file.write_text(look.metrics)
        files += ["--from", str(file)]
    argv = [str(program), "capacity", *files, "--used", f"{used:.0%}", "--json"]
    argv += ["--outside", f"{1e6 * outside:.2f}us"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)}: {result.stderr.strip()}")
    said = json.loads(result.stdout)
    at = said["at"]
    return Prediction(
        knee=said["knee_rps"],
        limit=said["limited_by"],
        rate=at["rps_per_replica"],
        p99_ms=1e3 * at["p99_seconds"],
        closed_form_p99_ms=1e3 * at["closed_form"]["p99_seconds"],
        said=said,
    )
