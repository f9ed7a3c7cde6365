"""What a run of the ladder does, and what is written of it."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

PARTS = ("idle", "slow", "at-once")
"""Idle connections; slow ones; requests in the same moment."""

PATHS = ("direct", "gateway")


@dataclass(frozen=True)
class Programs:
    """What runs."""

    server: Path
    generator: Path
    floor: Path
    envoy: Path


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    parts: tuple[str, ...] = PARTS
    paths: tuple[str, ...] = PATHS
    rounds: int = 3
    """Of the requests at once; the other parts take longer and have fewer."""
    rungs: tuple[int, ...] = (100, 1_000, 10_000, 20_000, 40_000)
    slow: int = 1_000
    """Slow connections."""
    requests: int = 20_000
    """At once."""
    windows: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Seconds over which new connections are spread."""
    rate: float = 1_000.0
    """Live requests per second beside the connections that are held."""
    seconds: float = 2.0
    """How long live requests are measured without those, and how long with them."""
    opened_per_second: float = 5_000.0
    """How fast a rung opens its connections."""
    seed: int = 1

    def rounds_of(self, part: str) -> int:
        """How often a part is measured: slow clients, who are waited for, once in two rounds of idle ones."""
        fewer = {"idle": 1, "slow": 2}.get(part, 0)
        return max(1, self.rounds - fewer)

    def to_dict(self) -> dict:
        """For JSON."""
        return asdict(self)


QUICK = Plan(
    rounds=1, rungs=(20, 100), slow=20, requests=200, windows=(0.2,), rate=200.0, seconds=0.4
)


@dataclass(frozen=True)
class Job:
    """What the measuring process is told."""

    plan: Plan
    programs: Programs
    gateway: str
    """Envoy's configuration, as the chart renders it."""
    cpus: list[int] = field(default_factory=list)

    def to_dict(self) -> dict:
        """For JSON."""
        programs = {name: str(path) for name, path in asdict(self.programs).items()}
        return {**asdict(self), "programs": programs}

    @classmethod
    def of(cls, data: dict) -> Self:
        """From JSON."""
        plan = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in data["plan"].items()
        }
        programs = Programs(**{name: Path(path) for name, path in data["programs"].items()})
        return cls(Plan(**plan), programs, data["gateway"], data["cpus"])
