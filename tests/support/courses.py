"""A load that changes by the second, and what an autoscaler makes of it.

Requests are sent when they are due, whether or not earlier ones are answered, as by many clients. Their latency counts
from then, so that a queue in front of the platform is part of it.
"""

import http.client
import itertools
import math
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from support.client import Client

STEP = 0.1
"""Seconds between two looks at a course."""


@dataclass(frozen=True)
class Stage:
    """A part of a course: a rate that goes from `begin` to `end`, of requests that cost `cost` times as much."""

    seconds: float
    begin: float
    end: float
    cost: float = 1.0


@dataclass(frozen=True)
class Due:
    """A request: when it is due, in seconds from the start, and what it costs."""

    at: float
    cost: float


def arrivals(stages: Sequence[Stage], seed: int = 1) -> Iterator[Due]:
    """Poisson arrivals at the rates of the stages."""
    draw = random.Random(seed)
    wanted, had, start = draw.expovariate(1), 0.0, 0.0
    for stage in stages:
        for index in range(round(stage.seconds / STEP)):
            passed = index * STEP
            rate = stage.begin + (stage.end - stage.begin) * passed / stage.seconds
            while wanted <= had + rate * STEP:
                yield Due(start + passed + (wanted - had) / rate, stage.cost)
                wanted += draw.expovariate(1)
            had += rate * STEP
        start += stage.seconds


def fewest(stages: Sequence[Stage], carried: float, least: int) -> float:
    """Replica-seconds of one who knows the course: each replica carries so much, in requests of cost 1 per second."""
    total = 0.0
    for stage in stages:
        for index in range(round(stage.seconds / STEP)):
            share = index * STEP / stage.seconds
            work = (stage.begin + (stage.end - stage.begin) * share) * stage.cost
            total += max(least, math.ceil(work / carried)) * STEP
    return total


@dataclass
class Course:
    """Sends the requests of the stages. As a context manager it ends with the last reply."""

    url: str
    stages: Sequence[Stage]
    ops: int
    """Steps of arithmetic of a request of cost 1."""
    clients: int = 96
    latencies: list[tuple[float, float]] = field(default_factory=list)
    """When each answered request was due, and the seconds from then to its reply."""
    failures: list[str] = field(default_factory=list)
    first: dict[str, float] = field(default_factory=dict)
    """When each replica answered for the first time."""

    def __enter__(self) -> Self:
        self._left = arrivals(self.stages)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self.started = time.monotonic()
        self._threads = [threading.Thread(target=self._run) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind:
            self.stop()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """Sends no further requests."""
        self._stop.set()

    def _run(self) -> None:
        client = Client(self.url)
        while due := self._next():
            if self._stop.wait(max(0.0, self.started + due.at - time.monotonic())):
                break
            client.drop_if_closed()
            try:
                reply = client.ask(f"/work?ops={round(self.ops * due.cost)}")
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{due.at:.1f} s: {type(error).__name__}: {error}")
                client.close()
                continue
            if reply.status == 200:
                now = time.monotonic()
                self.latencies.append((due.at, now - self.started - due.at))
                self.first.setdefault(reply.replica, now)
            else:
                self.failures.append(f"{due.at:.1f} s: {reply.status} {reply.body[:200]!r}")
            if reply.headers.get("connection") == "close":
                client.close()
        client.close()

    def _next(self) -> Due | None:
        with self._lock:
            return next(self._left, None)

    def held(self, objective: float) -> float:
        """The share of requests that were answered within so many seconds."""
        good = sum(took <= objective for _, took in self.latencies)
        return good / max(1, len(self.latencies) + len(self.failures))


@dataclass
class Replicas:
    """How many pods a Deployment had when; `wanted` is what the autoscaler asked for."""

    had: list[tuple[float, int]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)

    def take(self, deployment: dict) -> None:
        """Notes what the API server says."""
        self.had.append((time.monotonic(), deployment["status"].get("replicas", 0)))
        wanted = deployment["spec"]["replicas"]
        if self.wanted[-1:] != [wanted]:
            self.wanted.append(wanted)

    def seconds(self, begin: float, end: float) -> float:
        """Replica-seconds between two times."""
        times = [max(begin, at) for at, _ in self.had] + [end]
        spans = zip(self.had, itertools.pairwise(times), strict=True)
        return sum(count * max(0.0, after - before) for (_, count), (before, after) in spans)

    @property
    def reversals(self) -> int:
        """How often the autoscaler turned round."""
        signs = [after > before for before, after in itertools.pairwise(self.wanted)]
        return sum(after != before for before, after in itertools.pairwise(signs))


@dataclass
class Starts:
    """When the API server said of each pod that its container runs, and that it is ready."""

    running: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    def take(self, pod: dict) -> None:
        """Notes what the API server says."""
        now, name = time.monotonic(), pod["metadata"]["name"]
        for container in pod["status"].get("containerStatuses", []):
            if "running" in container["state"]:
                self.running.setdefault(name, now)
            if container["ready"]:
                self.ready.setdefault(name, now)

    def seconds(self, course: Course) -> list[tuple[float, float]]:
        """Of each pod that started in a course: seconds from its start to ready, and on to its first reply."""
        began = sorted(
            (self.running[name], name)
            for name in course.first
            if self.running.get(name, 0.0) > course.started
        )
        return [
            (self.ready[name] - at, course.first[name] - self.ready[name]) for at, name in began
        ]
