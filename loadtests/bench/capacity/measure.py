"""Measures one cell in one round: calibrates at a low load, asks the model, then measures both."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.capacity.cells import Cell
from loadtests.bench.capacity.load import Asker, Part
from loadtests.bench.capacity.replica import Replica, Seen, grown, quiet, serving
from loadtests.bench.capacity.verdict import USED
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.plan import Stand
from postgres import home
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


LANE_TIME = "corelane_load_table_lane_time_seconds_total"
SERVICE_TIME = "corelane_load_table_service_time_seconds_total"
OBSERVATIONS = "corelane_load_table_observations_total"
LANE_BUSY = ("corelane_lane_cpu_seconds_total", "corelane_lane_busy_seconds_total")

TOO_MUCH = 1.3
"""The load at which the knee is measured, in what is predicted: a queue is never empty then, and what comes out is
what the replica can do."""


LOW, KNEE = 2.5, 1.5
"""Seconds of the low load and of that beyond the knee; a cell says how long the p99 is measured."""

NOTHING = Cell("nothing", "/work of one step", works=((1e-6, 1.0),), low=200_000.0)
"""Requests whose handler takes no time, at more than any lane can do."""


@dataclass
class CapacityStand(Stand):
    """What every measurement uses."""

    programs: Programs | None = None
    command: Path = Path()
    """The program `corelane`."""
    asker: Asker | None = None
    outside: float = 0.0
    """Time of a request on a busy lane outside its handler, in seconds."""


def outside(stand: CapacityStand) -> float:
    """The cost of a request on a busy lane of this machine outside its handler, in seconds.

    A low load cannot separate it from the cost of waking up.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-capacity-", dir=home.ELSEWHERE) as folder,
        serving(NOTHING, stand.programs, list(stand.cpus), Path(folder)) as replica,
    ):
        part = Part(NOTHING.low, stand.plan.seconds(KNEE, least=0.3) / 2, seed=1, warm_up=0.1)
        before, after = _ask(stand, NOTHING, replica, part)["seen"]
    # CPU time lacks what others take of a lane meanwhile, which its handlers' time has; busy time lacks the call that
    # looks at sockets.
    lane = max(grown(before, after, name) for name in LANE_BUSY)
    return max(0.0, lane - grown(before, after, LANE_TIME)) / grown(before, after, OBSERVATIONS)


def measured(stand: CapacityStand, cell: Cell, seed: int) -> dict:
    """One sample: a prediction and its measurement."""
    seconds = stand.plan.seconds
    with tempfile.TemporaryDirectory(prefix="bench-capacity-", dir=home.ELSEWHERE) as name:
        folder = Path(name)
        with serving(cell, stand.programs, list(stand.cpus), folder) as replica:
            part = Part(cell.calibration_rate(), seconds(LOW, least=0.5), seed)
            low = _ask(stand, cell, replica, part)
            said = predicted(
                stand.command, cell, low["seen"], used=USED, outside=stand.outside, folder=folder
            )
            part = Part(TOO_MUCH * said.knee, seconds(KNEE, least=0.3), seed, warm_up=0.2)
            knee = _ask(stand, cell, replica, part)
            part = Part(said.rate, seconds(cell.seconds, least=0.5), seed)
            at = _ask(stand, cell, replica, part)
    return {
        "calibration_rate": cell.calibration_rate(),
        "limit": said.limit,
        "knee": {"predicted": said.knee, "measured": knee["requests_per_second"]},
        "p99": {"predicted": said.p99_ms, "measured": at["latency_ms"]["all"]["99"]},
        "closed_form_p99_ms": said.closed_form_p99_ms,
        "rate": said.rate,
        "p99_ms": at["latency_ms"]["all"]["99"],
        "latency_ms": at["latency_ms"],
        "lag_p99_ms": at["lag_p99_ms"],
        "generator_cores": max(at["generator_cores"], knee["generator_cores"]),
        "others_cores": max(part["others_cores"] for part in (low, knee, at)),
        "stolen_cores": max(part["stolen_cores"] for part in (low, knee, at)),
        "busy_at_knee": _busy(cell, *knee["seen"]),
        "busy_at_rate": _busy(cell, *at["seen"]),
        "handler_at_low": _mean(LANE_TIME, *low["seen"]),
        "handler_at_knee": _mean(LANE_TIME, *knee["seen"]),
        "service_at_low": _mean(SERVICE_TIME, *low["seen"]),
        "service_at_rate": _mean(SERVICE_TIME, *at["seen"]),
        "lanes": at["lanes"],
        "requests": low["requests"] + knee["requests"] + at["requests"],
        "wrong": low["wrong"] + knee["wrong"] + at["wrong"],
        "faults": [part["faults"] for part in (low, knee, at) if part["faults"]],
        "said": said.said,
    }


def _ask(stand: CapacityStand, cell: Cell, replica: Replica, part: Part) -> dict:
    result = stand.asker.ask(cell, replica.server, part, replica.look)
    return {**result, **quiet(*result["seen"], result["generator_cores"] * result["seconds"])}


def _busy(cell: Cell, before: Seen, after: Seen) -> float:
    """The share of the time that lanes were busy."""
    busy = grown(before, after, "corelane_lane_busy_seconds_total")
    return busy / (after.at - before.at) / cell.lanes


def _mean(name: str, before: Seen, after: Seen) -> float:
    """What a request took, in seconds, by a sum over requests."""
    return grown(before, after, name) / max(1.0, grown(before, after, OBSERVATIONS))
