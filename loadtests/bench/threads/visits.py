"""A closed loop with a connection for each request, and the clocks of both sides meanwhile."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment.generator import Generator, Place


@dataclass(frozen=True)
class Clocks:
    """CPU time so far."""

    at: float
    server: float
    generator: float
    machine: cpu.Machine

    @classmethod
    def now(cls, server: int, generator: int) -> Self:
        """Reads the clocks of two processes and of the machine."""
        used = cpu.seconds(server), cpu.seconds(generator)
        return cls(time.monotonic(), *used, cpu.Machine.now())

    def cores_since(self, before: Self) -> dict[str, float]:
        """How many cores each had."""
        wall = self.at - before.at
        server, generator = self.server - before.server, self.generator - before.generator
        busy = self.machine.busy - before.machine.busy
        return {
            "server_cores": server / wall,
            "generator_cores": generator / wall,
            "others_cores": max(0.0, busy - server - generator) / wall,
            "stolen_cores": (self.machine.stolen - before.machine.stolen) / wall,
        }


class Visits(Generator):
    """One run of the generator's visits."""

    def __init__(self, program: Path, place: Place, to: str, **options: object) -> None:
        super().__init__(program, place, "visits", to, **options)

    def beside(self, server: int) -> dict:
        """Runs the load on the server of this process; what came back, and the cores of the measured part."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if (said := self._line()) != "warm":
            raise AssertionError(said)
        before = Clocks.now(server, self._process.pid)
        found = self._line()
        cores = Clocks.now(server, self._process.pid).cores_since(before)
        rate = found["requests_per_second"] or 0.0
        return {
            "requests": found["requests"],
            "wrong": found["wrong"],
            "faults": found["faults"],
            "seconds": found["seconds"],
            "requests_per_second": rate,
            "latency_us": next(iter(found["latency_us"].values()), {}),
            **cores,
        }
