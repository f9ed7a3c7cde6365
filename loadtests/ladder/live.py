"""Live requests at a fixed rate, open loop, beside whatever else there is."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from loadtests.bench.experiment.generator import Generator, Place
from loadtests.ladder.plan import Job

CONNECTIONS = 32
"""Keep-alive, to each server."""


@dataclass(frozen=True)
class Seen:
    """Each right answer's begin and latency, and how many others there were."""

    t_s: list[float]
    latency_ms: list[float]
    wrong: int
    seconds: float


class Live:
    """Measures live requests, always over the same connections."""

    def __init__(self, generator: Generator, job: Job) -> None:
        self._generator, self._plan = generator, job.plan
        self._seed = job.plan.seed

    def measure(self, seconds: float | None = None) -> Seen:
        """Requests for so long, with the next seed."""
        self._seed += 1
        turn = {"rate": self._plan.rate, "seconds": seconds or self._plan.seconds}
        found = self._generator.measure(json.dumps({**turn, "work_share": 0.0, "seed": self._seed}))
        samples = found["samples"]
        rows = zip(samples["due_ms"], samples["latency_ms"], samples["right"], strict=True)
        right = [(due / 1e3, latency) for due, latency, right in rows if right]
        return Seen(
            [row[0] for row in right], [row[1] for row in right], found["wrong"], found["seconds"]
        )


@contextlib.contextmanager
def live(job: Job, to: list[str]) -> Iterator[Live]:
    """Live requests to all of these, first on their CPU: a late generator would look like a late reply."""
    place = Place(job.cpus[-1:], first=True)
    options = {"connections": CONNECTIONS}
    with Generator(job.programs.generator, place, "turns", ",".join(to), **options) as generator:
        yield Live(generator, job)
