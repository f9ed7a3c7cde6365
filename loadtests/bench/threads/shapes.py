"""The servers that are compared: one thread, a shared queue with N threads, and lanes."""

from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment import servers
from loadtests.bench.experiment.builds import Programs

LONG = "10m"
"""No request times out while 1,000 expensive ones wait before it."""


@dataclass(frozen=True)
class Pool:
    """An accept loop with a shared queue and so many workers; without any, it answers itself."""

    workers: int

    @property
    def name(self) -> str:
        """Its name in tables."""
        return f"pool of {self.workers}" if self.workers else "one thread"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        return [str(programs.peers / "pool"), "--listen", address, "--threads", str(self.workers)]


@dataclass(frozen=True)
class Lanes:
    """corelane-server with so many lanes."""

    lanes: int
    placement: str = "hashed"

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "1 lane" if self.lanes == 1 else f"{self.lanes} {self.placement} lanes"

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. Not pinned: the generator may use the same CPUs."""
        argv = servers.corelane(programs.server, address, self.lanes, self.placement, pin=False)
        for timeout in ("request", "header", "stall"):
            argv += [f"--timeouts.{timeout}", LONG]
        return argv


Shape = Pool | Lanes

ONE, TWO, SIXTEEN, LANES = Pool(0), Pool(2), Pool(16), Lanes(2)

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        *(ONE, Pool(1), TWO, Pool(4), SIXTEEN),
        *(Lanes(1), LANES, Lanes(2, "shared"), Lanes(2, "least-loaded")),
    )
}
"""By name."""
