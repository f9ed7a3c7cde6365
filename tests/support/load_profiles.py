"""A load that changes every second, and how an autoscaler reacts.

Open loop: requests are sent on schedule, and latency counts from then, so it includes queueing. The
first stage, where the autoscaler finds its initial size, is not judged.
"""

import http.client
import itertools
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from stack.http import Client

STEP = 0.1
COST = 0.1
"""Lane seconds of a request with cost 1."""


@dataclass(frozen=True)
class Stage:
    """The rate changes linearly from `begin` to `end`; `cost` scales each request."""

    seconds: float
    begin: float
    end: float
    cost: float = 1.0
    slow: bool = False


def slope(seconds: float, begin: float, end: float) -> Stage:
    """A stage whose load grows or falls from `begin` to `end` busy lanes, with requests of cost 1."""
    return Stage(seconds, begin / COST, end / COST)


def level(seconds: float, lanes: float, cost: float = 1.0, *, slow: bool = False) -> Stage:
    return Stage(seconds, lanes / COST, lanes / COST, cost, slow)


WAVE = [1.5 - math.cos(math.pi * part / 5) for part in range(11)]
"""Factors from 1 to 5 and back."""

LOAD_PROFILES = {
    "ramp": [level(15, 0.5), slope(40, 0.5, 2.5), level(15, 2.5), level(30, 0.3)],
    "step": [level(20, 0.9), level(35, 2.7), level(30, 0.3)],
    # Same rate, higher cost.
    "mix": [level(20, 0.9), level(35, 0.9, cost=2.5), level(30, 0.9, cost=0.3)],
    "sawtooth": [level(15, 0.8), *3 * [slope(30, 0.8, 2.4)]],
    "night": [level(15, 0.5), *(slope(10, *pair) for pair in itertools.pairwise(WAVE))],
    "flash": [level(15, 0.3), level(6, 3.0), level(50, 0.3)],
    "slow": [slope(25, 0.5, 1.7), level(15, 1.7), level(40, 1.7, slow=True), level(15, 1.7)],
}


@dataclass(frozen=True)
class Due:
    """A request's due time in seconds after the start, and its cost."""

    at: float
    cost: float


def arrivals(stages: Sequence[Stage], seed: int = 1) -> Iterator[Due]:
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


def fewest(stages: Sequence[Stage], carried: float, spare: int) -> float:
    """Replica-seconds of an oracle that knows the profile, with spares.

    A replica carries `carried` requests of cost 1 per second.
    """
    total = 0.0
    for stage in stages:
        for index in range(round(stage.seconds / STEP)):
            share = index * STEP / stage.seconds
            work = (stage.begin + (stage.end - stage.begin) * share) * stage.cost
            lost = 0.5 if stage.slow else 0.0
            total += (max(1, math.ceil(work / carried + lost)) + spare) * STEP
    return total


@dataclass
class LoadProfile:
    """Sends the requests; leaving the context waits for the last response."""

    url: str
    stages: Sequence[Stage]
    ops: int
    """Iterations of a request with cost 1."""
    clients: int = 96
    latencies: list[tuple[float, float, str]] = field(default_factory=list)
    """Due time, latency and replica of each answered request."""
    failures: list[str] = field(default_factory=list)
    first: dict[str, float] = field(default_factory=dict)

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
        self._stop.set()

    def begun(self) -> Iterator[Stage]:
        """Yields each stage as it starts."""
        at = self.started
        for stage in self.stages:
            if self._stop.wait(max(0.0, at - time.monotonic())):
                return
            yield stage
            at += stage.seconds

    @property
    def judged(self) -> tuple[float, float]:
        """Start and end of the judged time, which excludes the first stage."""
        seconds = [stage.seconds for stage in self.stages]
        return self.started + seconds[0], self.started + sum(seconds)

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
                self.latencies.append((due.at, now - self.started - due.at, reply.replica))
                self.first.setdefault(reply.replica, now)
            else:
                self.failures.append(f"{due.at:.1f} s: {reply.status} {reply.body[:200]!r}")
            if reply.headers.get("connection") == "close":
                client.close()
        client.close()

    def _next(self) -> Due | None:
        with self._lock:
            return next(self._left, None)

    def replies_of(self, pods: set[str]) -> int:
        return sum(replica in pods for _, _, replica in self.latencies)

    def took(self, pods: set[str], spans: list[tuple[float, float]]) -> list[float]:
        """Latencies of requests that were due in this period and that these pods answered."""
        return [
            took
            for at, took, replica in self.latencies
            if replica in pods and any(a <= self.started + at <= b for a, b in spans)
        ]

    def held(self, objective: float) -> float:
        """Share of judged requests within the objective; failed requests count as late."""
        judged = [took for at, took, _ in self.latencies if at >= self.stages[0].seconds]
        good = sum(took <= objective for took in judged)
        return good / max(1, len(judged) + len(self.failures))


@dataclass
class Replicas:
    """A Deployment's pod count over time; `wanted` is the autoscaler's target."""

    had: list[tuple[float, int]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)

    def take(self, deployment: dict) -> None:
        self.had.append((time.monotonic(), deployment["status"].get("replicas", 0)))
        wanted = deployment["spec"]["replicas"]
        if self.wanted[-1:] != [wanted]:
            self.wanted.append(wanted)

    def seconds(self, begin: float, end: float) -> float:
        times = [min(max(begin, at), end) for at, _ in self.had] + [end]
        spans = zip(self.had, itertools.pairwise(times), strict=True)
        return sum(count * (after - before) for (_, count), (before, after) in spans)

    @property
    def reversals(self) -> int:
        signs = [after > before for before, after in itertools.pairwise(self.wanted)]
        return sum(after != before for before, after in itertools.pairwise(signs))


@dataclass
class Lives:
    """State changes per pod, from `kubectl get pods --watch --output-watch-events`."""

    began: Callable[[str], float]
    """Process start time by pod UID."""
    times: dict[str, dict[str, float]] = field(default_factory=dict)

    def take(self, event: dict) -> None:
        now, pod = time.monotonic(), event["object"]
        containers = pod["status"].get("containerStatuses", [])
        reached = {
            "created": True,
            "scheduled": "nodeName" in pod["spec"],
            "ready": bool(containers) and all(each["ready"] for each in containers),
            "deleted": "deletionTimestamp" in pod["metadata"],
            "gone": event["type"] == "DELETED",
        }
        times = self.times.setdefault(pod["metadata"]["name"], {})
        for what in (what for what, whether in reached.items() if whether):
            times.setdefault(what, now)
        if reached["ready"] and "began" not in times:
            times["began"] = self.began(pod["metadata"]["uid"])

    def note(self, what: str, times: dict[str, float]) -> None:
        for name, at in times.items():
            self.times.setdefault(name, {}).setdefault(what, at)

    def between(self, since: float, begin: str, end: str) -> list[tuple[float, float]]:
        """Durations between two events, for pods that had both after `since`."""
        return [
            (times[begin], times[end])
            for times in self.times.values()
            if times.get(begin, 0.0) > since and end in times
        ]
