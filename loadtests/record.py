"""The record of a run: its schema, its folder and its JSON."""

import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tools.errors import ToolError

SCHEMA = 1
OUT = Path(__file__).resolve().parent / "out"
FILE = "run.json"

INNERMOST = re.compile(r"\[[^\[\]{}]*\]")

ALL = "all"
"""Every request of a part, whatever its route; also the name of the only part."""


def quantiles(values: Sequence[float], percents: Iterable[float]) -> list[float]:
    """Percentiles of values in order, as k6 has them: interpolated between the two nearest."""
    found = []
    for percent in percents:
        rank = (len(values) - 1) * percent / 100
        low = int(rank)
        high = min(low + 1, len(values) - 1)
        found.append(values[low] + (values[high] - values[low]) * (rank - low))
    return found


@dataclass
class Target:
    """Where requests went."""

    url: str
    via: str
    """`gateway`, `direct` or `cluster`."""
    replicas: list[str] = field(default_factory=list)


@dataclass
class Checks:
    """k6's checks, or a generator's own of each reply."""

    passed: int = 0
    failed: int = 0
    failed_names: list[str] = field(default_factory=list)


@dataclass
class Route:
    """What was asked on one route."""

    requests: int
    failed: int
    latency_ms: dict[str, float]
    """Of `min`, `mean`, `p50`, `p90`, `p95`, `p99`, `p99.9` and `max` those that are known."""


@dataclass
class OverTime:
    """A route's requests by time: one entry a bin, `t` being the seconds at which it begins."""

    t: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    p50_ms: list[float | None] = field(default_factory=list)
    p99_ms: list[float | None] = field(default_factory=list)
    max_ms: list[float | None] = field(default_factory=list)


@dataclass
class Figure:
    """One number that only this kind of run has, as the knee or the time to connect."""

    value: float
    unit: str


@dataclass
class Part:
    """A part of a run, as `direct` and `gateway`, or a cell of a matrix; `all` if it is the only one."""

    name: str
    seconds: float
    requests: int
    failed: int
    requests_per_second: float
    dropped: int = 0
    checks: Checks | None = None
    routes: dict[str, Route] = field(default_factory=dict)
    percentiles: dict[str, list[list[float]]] = field(default_factory=dict)
    """By route, pairs of a percent and milliseconds."""
    over_time: dict[str, OverTime] = field(default_factory=dict)
    scatter: dict[str, list[list[float]]] = field(default_factory=dict)
    """By route, a sample of pairs of seconds and milliseconds: at most 3,000 in a part."""
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def whole(self) -> str | None:
        """The name under which all of its requests are: `all`, or its only route's."""
        if ALL in self.routes:
            return ALL
        return next(iter(self.routes)) if len(self.routes) == 1 else None


@dataclass
class Server:
    """What Prometheus saw of the servers meanwhile: lists of pairs of seconds and a value."""

    phases: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    """By phase (`accept`, `queue`, `handler`, `write`): `p50_ms` and `p99_ms`."""
    lanes_busy: list[list[float]] = field(default_factory=list)
    gateway_p99_ms: list[list[float]] = field(default_factory=list)
    requests_per_second: list[list[float]] = field(default_factory=list)
    whole_run: dict[str, dict[str, float]] = field(default_factory=dict)
    """By phase, and of `gateway`: `p50_ms` and `p99_ms` of all requests of the run, and `finest_ms`, below which the
    histogram tells no values apart."""


@dataclass
class Run:
    """A run that ended."""

    name: str
    tool: str
    tool_version: str
    passed: bool
    exit_code: int
    started: str
    """UTC, ISO 8601."""
    seconds: float
    target: Target
    settings: dict[str, object]
    machine: dict[str, object]
    load_average_before: list[float]
    failed_thresholds: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    """Those of a run of several parts that are of none of them."""
    server: Server | None = None
    notes: list[str] = field(default_factory=list)
    """What the scenario has to say, as what it could not ask."""
    k6: dict | None = None
    """k6's own summary: the argument of handleSummary."""
    schema: int = SCHEMA

    def part(self, name: str) -> Part | None:
        """The part of this name."""
        return next((part for part in self.parts if part.name == name), None)


def to_json(run: Run) -> str:
    """The text of run.json."""
    text = json.dumps(dataclasses.asdict(run), indent=1)
    # A list of numbers stays on its line. Within JSON's strings there are no line ends to lose.
    return INNERMOST.sub(lambda found: re.sub(r"\n *", "", found[0]), text) + "\n"


def from_json(text: str) -> Run:
    """A run from the text of its run.json."""
    data = json.loads(text)
    if data.get("schema") != SCHEMA:
        raise ToolError(f"schema {data.get('schema')} of the run; this program reads {SCHEMA}")
    data["target"] = Target(**data["target"])
    data["parts"] = [_part(part) for part in data.get("parts", [])]
    data["figures"] = {name: Figure(**one) for name, one in data.get("figures", {}).items()}
    data["server"] = Server(**data["server"]) if data.get("server") else None
    return Run(**data)


def _part(data: dict) -> Part:
    data["checks"] = Checks(**data["checks"]) if data.get("checks") else None
    for key, kind in (("routes", Route), ("over_time", OverTime), ("figures", Figure)):
        data[key] = {name: kind(**values) for name, values in data.get(key, {}).items()}
    return Part(**data)


def create_folder(out: Path, name: str, started: datetime) -> Path:
    """A new folder for a run; logs may go there before its record does."""
    out.mkdir(parents=True, exist_ok=True)
    first = f"{name}-{started.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    for number in range(1, 100):
        folder = out / (first if number == 1 else f"{first}-{number}")
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise ToolError(f"{out / first}: a hundred runs began in the same second")


def write(run: Run, folder: Path) -> Path:
    """Writes run.json into the run's folder, which becomes the newest of its name."""
    file = folder / FILE
    file.write_text(to_json(run))
    point_latest(folder, run.name)
    return file


def point_latest(folder: Path, name: str) -> None:
    """Makes a folder the newest of its name."""
    # Renamed into place, so that there is a newest at every moment.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".latest-") as beside:
        link = Path(beside) / "link"
        link.symlink_to(folder.name)
        os.replace(link, folder.parent / f"{name}-latest")


def read(place: Path) -> Run:
    """The run of a folder, or of a run.json."""
    file = place / FILE if place.is_dir() else place
    try:
        return from_json(file.read_text())
    except FileNotFoundError:
        raise ToolError(f"{file}: there is no such run") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolError(f"{file} is no record of a run: {error}") from None
