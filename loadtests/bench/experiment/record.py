"""The record of a run: facts of the machine and one row per sample."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, Self

from loadtests.bench.experiment.plan import Plan, Row
from stack import machine

Figure = str
"""Metric name with dots for nesting: "latency_us.hello.99"."""


@dataclass
class Record:
    """The data of a report as JSON, for regenerating it."""

    benchmark: str
    plan: dict[str, Any]
    command: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    cpus: list[int] = field(default_factory=list)
    load_average: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Tasks that could not be measured, with the reason."""
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def begin(cls, benchmark: str, plan: Plan) -> Self:
        """A record without rows."""
        kept = {**asdict(plan), "options": vars(plan.options)}
        return cls(
            benchmark,
            json.loads(json.dumps(kept, default=str)),
            command=" ".join(["python3 loadtests/bench", *sys.argv[1:]]),
            machine=machine.describe(),
            load_average={"before": list(os.getloadavg())},
            seconds=-time.monotonic(),
        )

    def end(self) -> None:
        self.seconds += time.monotonic()
        self.load_average["after"] = list(os.getloadavg())

    @classmethod
    def read(cls, file: Path) -> Self:
        return cls(**json.loads(file.read_text()))

    def write(self, file: Path) -> None:
        """One row per line; a rename keeps the file complete at all times."""
        file.parent.mkdir(parents=True, exist_ok=True)
        head = {name: value for name, value in asdict(self).items() if name != "rows"}
        rows = ",\n".join(json.dumps(row) for row in self.rows)
        part = file.with_suffix(".part")
        part.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{rows}\n]}}\n')
        part.replace(file)

    def select(self, **labels: object) -> list[Row]:
        found = (row for row in self.rows if all(row.get(k) == v for k, v in labels.items()))
        return sorted(found, key=lambda row: row["round"])

    def labels(self, name: str, **where: object) -> list[str]:
        """A label's values, in the plan's order or, if it defines none, in the order of
        measurement.
        """
        found = dict.fromkeys(row[name] for row in self.select(**where) if name in row)
        return [known for known in self.facts.get("order", {}).get(name, found) if known in found]

    def values(self, figure: Figure, **labels: object) -> list[float]:
        """Values of a metric per round, without rows that lack it."""
        found = (figure_of(row, figure) for row in self.select(**labels))
        return [value for value in found if value is not None]

    def ratios(
        self, figure: Figure, mine: dict[str, object], base: dict[str, object], **both: object
    ) -> list[float]:
        """One arm's value relative to another arm's in the same round."""
        other = {row["round"]: figure_of(row, figure) for row in self.select(**base, **both)}
        return [
            value / other[row["round"]]
            for row in self.select(**mine, **both)
            if (value := figure_of(row, figure)) is not None and other.get(row["round"])
        ]

    def disturbances(self) -> Iterator[float]:
        """Cores that other processes and the hypervisor used during each sample that counts
        them."""
        for row in self.rows:
            if "others_cores" in row:
                yield row["others_cores"] + row["stolen_cores"]

    def total(self, figure: Figure) -> float:
        return sum(self.values(figure))


def figure_of(row: Row, figure: Figure) -> Any:
    value: Any = row
    for part in figure.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def nearest(values: Sequence[float], percent: float) -> float:
    """Smallest value that this percentage of the values does not exceed (nearest rank)."""
    return sorted(values)[max(0, ceil(percent / 100 * len(values)) - 1)]


def merged(rows: Iterable[Row]) -> Row:
    """Merges several parts of one sample: adds requests and wrong responses, keeps the worst
    disturbance.
    """
    parts = list(rows)
    sums = {name: sum(part[name] for part in parts) for name in ("requests", "wrong")}
    worst = {name: max(part[name] for part in parts) for name in ("others_cores", "stolen_cores")}
    return {**sums, **worst}
