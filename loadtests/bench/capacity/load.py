"""The load of a cell: at a rate, with Poisson arrivals, by the generator's fitting mode."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.capacity.cells import KINDS, USERS, Cell
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.servers import Running
from loadtests.bench.mixed.stack import PAGE, TOKEN

Look = Callable[[], object]
"""Reads counters."""


@dataclass(frozen=True)
class Part:
    """One load."""

    rate: float
    seconds: float
    seed: int
    warm_up: float = 0.5


@dataclass(frozen=True)
class Asker:
    """What loads are made with."""

    program: Path
    cpus: list[int]
    ops_per_ms: float

    def ask(self, cell: Cell, server: Running, part: Part, look: Look) -> dict:
        """One load on one server; latencies in milliseconds, for each kind and for all.

        `look` is called before and after it, with no request in flight.
        """
        place = Place(self.cpus, first=True)
        if cell.projects:
            return self._users(server, place, part, look)
        options = {"rate": round(part.rate, 1), "seconds": part.seconds, "seed": part.seed}
        options |= {"connections": cell.connections, "warm_up": part.warm_up}
        options |= self._works(cell)
        # Connections stay on a lane, and the model's arrivals at each lane are random.
        options["next"] = "any"
        with Generator(self.program, place, "open", server.address, **options) as load:
            before, result, after = look(), load.measure(), look()
        latency = {
            kind: {key: value if key == "count" else value / 1e3 for key, value in times.items()}
            for kind, times in result["latency_us"].items()
        }
        lag = result["lag_us"].get("99", 0.0) / 1e3
        return {**_common(result, result["wrong"], latency, lag), "seen": (before, after)}

    def _works(self, cell: Cell) -> dict[str, object]:
        works = (f"{round(ms * self.ops_per_ms)}={share:g}" for ms, share in cell.works)
        return {"works": ",".join(works)} if cell.works else {}

    def _users(self, server: Running, place: Place, part: Part, look: Look) -> dict:
        with tempfile.TemporaryDirectory(prefix="bench-capacity-") as folder:
            token = Path(folder) / "token"
            token.write_text(TOKEN)
            options = {"users": USERS, "page": PAGE, "token": token, "seed": part.seed}
            with Generator(self.program, place, "users", server.address, **options) as load:
                wanted = {"loop": "open", "kinds": KINDS, "rate": part.rate, "seed": part.seed}
                load.measure(json.dumps({**wanted, "seconds": part.warm_up}))
                last = json.dumps({**wanted, "seconds": part.seconds})
                before, result, after = look(), load.measure(last), look()
        lag = result["lag_ms"].get("99", 0.0)
        found = _common(result, result["errors"], result["latency_ms"], lag)
        return {**found, "seen": (before, after)}


def _common(result: dict, wrong: int, latency: dict, lag_p99_ms: float) -> dict:
    """What both modes tell, under one name each."""
    return {
        "requests": result["requests"],
        "wrong": wrong,
        "faults": result["faults"],
        "seconds": result["seconds"],
        "requests_per_second": result["requests_per_second"],
        "latency_ms": latency,
        "lag_p99_ms": lag_p99_ms,
        "generator_cores": result["generator_cpu_seconds"] / result["seconds"],
        "lanes": result["lanes"],
    }
