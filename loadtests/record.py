"""The record of a run: its schema, folder and JSON."""

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
"""Name for all requests of a part, on any route; also the name of a run's only part."""


def quantiles(values: Sequence[float], percents: Iterable[float]) -> list[float]:
    """Percentiles of sorted values, interpolated between the two nearest values as in k6."""
    found = []
    for percent in percents:
        rank = (len(values) - 1) * percent / 100
        low = int(rank)
        high = min(low + 1, len(values) - 1)
        found.append(values[low] + (values[high] - values[low]) * (rank - low))
    return found


@dataclass
class Target:
    url: str
    via: str
    replicas: list[str] = field(default_factory=list)


@dataclass
class Checks:
    """k6's checks, or a generator's own checks of each response."""

    passed: int = 0
    failed: int = 0
    failed_names: list[str] = field(default_factory=list)


@dataclass
class Route:
    requests: int
    failed: int
    latency_ms: dict[str, float]
    """Known values of `min`, `mean`, `p50`, `p90`, `p95`, `p99`, `p99.9` and `max`."""


@dataclass
class OverTime:
    """A route's requests over time: one entry per bin, where `t` is its start in seconds."""

    t: list[float] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    p50_ms: list[float | None] = field(default_factory=list)
    p99_ms: list[float | None] = field(default_factory=list)
    max_ms: list[float | None] = field(default_factory=list)


@dataclass
class Figure:
    """A number specific to this kind of run, such as the knee or the time to connect."""

    value: float
    unit: str


@dataclass
class Part:
    """A part of a run, such as `direct` and `gateway`, or a cell of a matrix; `all` if it is the
    only part.
    """

    name: str
    seconds: float
    requests: int
    failed: int
    requests_per_second: float
    dropped: int = 0
    checks: Checks | None = None
    routes: dict[str, Route] = field(default_factory=dict)
    percentiles: dict[str, list[list[float]]] = field(default_factory=dict)
    over_time: dict[str, OverTime] = field(default_factory=dict)
    scatter: dict[str, list[list[float]]] = field(default_factory=dict)
    """Sampled (seconds, milliseconds) pairs for each route, at most 3,000 per part."""
    figures: dict[str, Figure] = field(default_factory=dict)

    @property
    def whole(self) -> str | None:
        """Returns the name for all of its requests: `all`, or the only route."""
        if ALL in self.routes:
            return ALL
        return next(iter(self.routes)) if len(self.routes) == 1 else None


@dataclass
class Server:
    """Prometheus' data about the servers during the run: pairs of seconds and a value."""

    phases: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)
    """`p50_ms` and `p99_ms` by phase (`accept`, `queue`, `handler`, `write`)."""
    lanes_busy: list[list[float]] = field(default_factory=list)
    gateway_p99_ms: list[list[float]] = field(default_factory=list)
    requests_per_second: list[list[float]] = field(default_factory=list)
    whole_run: dict[str, dict[str, float]] = field(default_factory=dict)
    """`p50_ms` and `p99_ms` of all requests of the run, by phase and for the `gateway`. Also
    `finest_ms`, the resolution of the histogram.
    """


@dataclass
class Run:
    name: str
    tool: str
    tool_version: str
    passed: bool
    exit_code: int
    started: str
    """Start time in UTC, as ISO 8601."""
    seconds: float
    target: Target
    settings: dict[str, object]
    machine: dict[str, object]
    load_average_before: list[float]
    failed_thresholds: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    """Values of a multi-part run that belong to no single part."""
    server: Server | None = None
    notes: list[str] = field(default_factory=list)
    """Notes of the scenario, such as data that it could not query."""
    k6: dict | None = None
    """k6's own summary: the argument of handleSummary."""
    schema: int = SCHEMA

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)


def to_json(run: Run) -> str:
    text = json.dumps(dataclasses.asdict(run), indent=1)
    # Put a list of numbers on one line. JSON strings contain no line breaks that this could remove.
    return INNERMOST.sub(lambda found: re.sub(r"\n *", "", found[0]), text) + "\n"


def from_json(text: str) -> Run:
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
    """Logs may be written to the folder before its record."""
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
    """Writes run.json into the run's folder, which becomes the newest with its name."""
    file = folder / FILE
    file.write_text(to_json(run))
    point_latest(folder, run.name)
    return file


def point_latest(folder: Path, name: str) -> None:
    # A rename replaces the link, so that a newest folder always exists.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".latest-") as beside:
        link = Path(beside) / "link"
        link.symlink_to(folder.name)
        os.replace(link, folder.parent / f"{name}-latest")


def read(place: Path) -> Run:
    file = place / FILE if place.is_dir() else place
    try:
        return from_json(file.read_text())
    except FileNotFoundError:
        raise ToolError(f"{file}: there is no such run") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolError(f"{file} is no record of a run: {error}") from None
