"""What is compared: one thread, a shared queue with N threads, and lanes."""

from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.experiment import servers
from loadtests.bench.experiment.servers import CONNECTIONS, HOST

BACKLOG = 4096
"""Length of the accept queue unless that is what is tested."""

LONG = "10m"
"""Nobody is to be turned away because 1,000 dear requests wait."""


@dataclass(frozen=True)
class Programs:
    """What runs."""

    server: Path
    peers: Path
    """The folder of the generator and the pool."""

    @property
    def generator(self) -> Path:
        """The load generator."""
        return self.peers / "load-generator"

    @property
    def pool(self) -> Path:
        """The server with a shared queue."""
        return self.peers / "pool"


@dataclass(frozen=True)
class Pool:
    """An accept loop with a shared queue and so many workers; without any, it answers itself."""

    workers: int
    backlog: int = BACKLOG

    @property
    def name(self) -> str:
        """Its name in tables."""
        if not self.workers:
            return "one thread"
        return f"pool of {self.workers}"

    @property
    def threads(self) -> int:
        """Threads that answer."""
        return self.workers or 1

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started."""
        argv = [str(programs.pool), "serve", "--listen", address]
        return [*argv, "--threads", str(self.workers), "--backlog", str(self.backlog)]


@dataclass(frozen=True)
class Lanes:
    """corelane-server with so many lanes."""

    lanes: int
    placement: str = "hashed"
    backlog: int = BACKLOG

    @property
    def name(self) -> str:
        """Its name in tables."""
        return "1 lane" if self.lanes == 1 else f"{self.lanes} lanes, {self.placement}"

    @property
    def threads(self) -> int:
        """Threads that answer."""
        return self.lanes

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. Not pinned: the generator has the same CPUs, as it had in the original."""
        argv = [str(programs.server), "--listen", address, "--admin.listen", f"{HOST}:0"]
        argv += ["--lanes", str(self.lanes), "--pin", "off", "--placement", self.placement]
        argv += ["--limits.connections", str(CONNECTIONS), "--backlog", str(self.backlog)]
        argv += ["--timeouts.request", LONG, "--timeouts.header", LONG, "--timeouts.stall", LONG]
        return [*argv, "--replica", "bench", "--log.level", "warn"]


Shape = Pool | Lanes

ONE = Pool(0)

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        ONE,
        *(Pool(workers) for workers in (1, 2, 4, 16)),
        Lanes(1),
        *(Lanes(2, placement) for placement in ("hashed", "shared", "least-loaded")),
    )
}
"""By name."""

running = servers.running
"""Starts one, and kills it at the end with whatever it still does."""
