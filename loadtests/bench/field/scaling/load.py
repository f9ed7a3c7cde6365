"""One cell: a closed loop on a server that runs, and what it cost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

from loadtests.bench import machine
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.experiment.servers import Running
from loadtests.bench.field.bench import Bench
from loadtests.bench.field.scaling.plan import Sizes
from tools import progress
from tools.errors import ToolError

Found = TypeVar("Found")


@dataclass(frozen=True)
class Cell:
    """What one closed loop saw."""

    requests: int
    wrong: int
    per_second: float
    cpu_us: float
    """Of the server for each request."""
    resident_kib: int
    """Afterwards, with all connections open."""
    others: float
    """Cores that others took meanwhile, the hypervisor included."""

    @classmethod
    def of(
        cls,
        bench: Bench,
        server: Running,
        place: Place,
        sizes: Sizes,
        warm_up: float = 0.0,
        **options: object,
    ) -> Self:
        """Loads the server; `warm_up` is what it takes at least."""
        times = {"seconds": sizes.seconds, "warm_up": max(sizes.warm_up, warm_up)}
        with Generator(
            bench.generator, place, "closed", server.address, **options, **times
        ) as load:
            used, result = cpu_of(server, load)
            resident = server.resident_kib()
        requests = result["requests"]
        return cls(
            requests=requests,
            wrong=result["wrong"],
            per_second=result["requests_per_second"],
            cpu_us=used / requests * 1e6,
            resident_kib=resident,
            others=max(0.0, result["others_cores"] + result["stolen_cores"]),
        )


@dataclass
class Seen:
    """What all cells of a part have in common."""

    wrong: dict[str, int] = field(default_factory=dict)
    """Requests without a right reply, by name."""
    others: list[float] = field(default_factory=list)

    def add(self, name: str, *cells: Cell) -> None:
        """Counts them."""
        if wrong := sum(cell.wrong for cell in cells):
            self.wrong[name] = self.wrong.get(name, 0) + wrong
        self.others += [cell.others for cell in cells]

    def part(self, about: str, figures: list[dict], notes: list[str]) -> dict:
        """A part for the report."""
        told = [
            f"{name}: {count:,} requests without a right reply."
            for name, count in self.wrong.items()
        ]
        told += [machine.others(self.others)] if self.others else []
        peers = {name: count for name, count in self.wrong.items() if not _is_ours(name)}
        wrong = sum(self.wrong.values()) - sum(peers.values())
        found = {"about": about, "figures": figures, "notes": notes + told, "wrong": wrong}
        # What a peer does not carry is a finding; what Corelane does not carry is an error.
        return {**found, "failed": peers}


def _is_ours(name: str) -> bool:
    return name.lower().startswith("corelane")


def tried(part: str, name: str, measured: Callable[[], Found]) -> Found | None:
    """What was measured; of a server that failed nothing, and the others go on."""
    try:
        found = measured()
    except ToolError as error:
        progress.say(part, f"{name} is left out: {error}")
        return None
    progress.say(part, name)
    return found
