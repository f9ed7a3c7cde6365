"""What a test with another tool is given, and what becomes of what it found."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from loadtests.k6 import THRESHOLD
from loadtests.record import Part, Run
from loadtests.report import prometheus
from loadtests.target import Target
from loadtests.usage import UsageError
from stack import machine

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Job:
    """Where to, how much, and where logs go."""

    target: Target
    settings: dict[str, object]
    folder: Path

    def connections(self, by_default: int) -> int:
        """How many at a time."""
        return int(self.settings.get("vus", by_default))

    def seconds(self, by_default: int) -> int:
        """How long a run of the tool is; tools take whole seconds."""
        return self.limit() or by_default

    def limit(self) -> int | None:
        """The whole seconds of --duration, if it was given."""
        text = str(self.settings.get("duration", ""))
        if not text:
            return None
        parts = re.findall(r"(\d+)(ms|[smh])", text)
        total = sum(int(number) * UNITS[unit] for number, unit in parts)
        if "".join(number + unit for number, unit in parts) != text or total < 1:
            raise UsageError(f"--duration {text}: give at least 1s, as in 20s or 2m")
        return int(total)

    @property
    def server(self) -> str:
        """One replica, as the systems had no gateway; the gateway where none can be reached."""
        return self.target.direct or self.target.gateway


@dataclass
class Outcome:
    """What a tool found."""

    version: str
    parts: list[Part]
    via: str
    notes: list[str] = field(default_factory=list)


def record(test: Callable[[Job], Outcome], scenario: str, tool: str, job: Job) -> Run:
    """Runs a test; it passes when every request of each part had the right answer."""
    load, started = os.getloadavg(), datetime.now(UTC)
    found = test(job)
    seconds = (datetime.now(UTC) - started).total_seconds()
    failed = [_fault(part) for part in found.parts if part.failed or not part.requests]
    target = job.target
    return Run(
        name=scenario,
        tool=tool,
        tool_version=found.version,
        passed=not failed,
        exit_code=THRESHOLD if failed else 0,
        failed_thresholds=failed,
        started=started.isoformat(timespec="milliseconds"),
        seconds=round(seconds, 1),
        target=target.asked(found.via),
        settings=job.settings,
        machine=machine.describe(),
        load_average_before=[round(value, 2) for value in load],
        parts=found.parts,
        server=prometheus.ask(target.prometheus, started.timestamp(), seconds),
        notes=found.notes,
    )


def via(job: Job) -> str:
    """What a test asks that has no gateway in it."""
    return "direct" if job.target.direct else "gateway"


def _fault(part: Part) -> str:
    if not part.requests:
        return f"{part.name}: no request was answered"
    return f"{part.name}: {part.failed} of {part.requests} requests failed"
