"""A load that changes every second, and the reaction of an autoscaler.

Requests are sent when they are due, whether or not earlier ones are answered, as by many clients. Their latency
counts from that time and therefore includes a queue in front of the platform. The first stage of a profile is
not judged: in it, the autoscaler reaches the initial number of replicas.
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
"""Seconds between two updates of the rate."""
COST = 0.1
"""Seconds for which a request of cost 1 occupies a lane."""


@dataclass(frozen=True)
class Stage:
    """A part of a profile: the rate changes from `begin` to `end`, and each request costs `cost` times as much."""

    seconds: float
    begin: float
    end: float
    cost: float = 1.0
    slow: bool = False
    """Whether one replica has half of its CPU."""


def slope(seconds: float, begin: float, end: float) -> Stage:
    """Returns a stage in which requests of cost 1 keep `begin` and then up to `end` lanes busy."""
    return Stage(seconds, begin / COST, end / COST)


def level(seconds: float, lanes: float, cost: float = 1.0, *, slow: bool = False) -> Stage:
    """Returns a stage with a constant rate."""
    return Stage(seconds, lanes / COST, lanes / COST, cost, slow)


WAVE = [1.5 - math.cos(math.pi * part / 5) for part in range(11)]
"""Factors from 1 to 5 and back."""

LOAD_PROFILES = {
    "ramp": [level(15, 0.5), slope(40, 0.5, 2.5), level(15, 2.5), level(30, 0.3)],
    "step": [level(20, 0.9), level(35, 2.7), level(30, 0.3)],
    # Same rate, but more expensive requests.
    "mix": [level(20, 0.9), level(35, 0.9, cost=2.5), level(30, 0.9, cost=0.3)],
    "sawtooth": [level(15, 0.8), *3 * [slope(30, 0.8, 2.4)]],
    "night": [level(15, 0.5), *(slope(10, *pair) for pair in itertools.pairwise(WAVE))],
    "flash": [level(15, 0.3), level(6, 3.0), level(50, 0.3)],
    "slow": [slope(25, 0.5, 1.7), level(15, 1.7), level(40, 1.7, slow=True), level(15, 1.7)],
}
"""Load profiles for replicas with one lane."""


@dataclass(frozen=True)
class Due:
    """A request with its due time, in seconds from the start, and its cost."""

    at: float
    cost: float


def arrivals(stages: Sequence[Stage], seed: int = 1) -> Iterator[Due]:
    """Yields Poisson arrivals at the rates of the stages."""
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
    """Returns the replica-seconds of an oracle that knows the profile, with spare replicas.

    Each replica handles `carried` requests of cost 1 per second.
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
    """Sends the requests of the stages. As a context manager, it ends with the last response."""

    url: str
    stages: Sequence[Stage]
    ops: int
    """Arithmetic steps of a request of cost 1."""
    clients: int = 96
    latencies: list[tuple[float, float, str]] = field(default_factory=list)
    """Due time of each answered request, seconds from then to its response, and the replica."""
    failures: list[str] = field(default_factory=list)
    first: dict[str, float] = field(default_factory=dict)
    """Time of each replica's first response."""

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

    def begun(self) -> Iterator[Stage]:
        """Yields each stage when it begins."""
        at = self.started
        for stage in self.stages:
            if self._stop.wait(max(0.0, at - time.monotonic())):
                return
            yield stage
            at += stage.seconds

    @property
    def judged(self) -> tuple[float, float]:
        """Returns start and end of all stages but the first."""
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
        """Returns the number of responses from these pods."""
        return sum(replica in pods for _, _, replica in self.latencies)

    def took(self, pods: set[str], spans: list[tuple[float, float]]) -> list[float]:
        """Returns the latencies of requests that were due in this period and that these pods answered."""
        return [
            took
            for at, took, replica in self.latencies
            if replica in pods and any(a <= self.started + at <= b for a, b in spans)
        ]

    def held(self, objective: float) -> float:
        """Returns the share of judged requests answered within this many seconds; failures count as late."""
        judged = [took for at, took, _ in self.latencies if at >= self.stages[0].seconds]
        good = sum(took <= objective for took in judged)
        return good / max(1, len(judged) + len(self.failures))


@dataclass
class Replicas:
    """The number of a Deployment's pods over time; `wanted` is the number that the autoscaler requested."""

    had: list[tuple[float, int]] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)

    def take(self, deployment: dict) -> None:
        """Records the API server's state."""
        self.had.append((time.monotonic(), deployment["status"].get("replicas", 0)))
        wanted = deployment["spec"]["replicas"]
        if self.wanted[-1:] != [wanted]:
            self.wanted.append(wanted)

    def seconds(self, begin: float, end: float) -> float:
        """Returns the replica-seconds between two times."""
        times = [min(max(begin, at), end) for at, _ in self.had] + [end]
        spans = zip(self.had, itertools.pairwise(times), strict=True)
        return sum(count * (after - before) for (_, count), (before, after) in spans)

    @property
    def reversals(self) -> int:
        """Returns how often the autoscaler changed direction."""
        signs = [after > before for before, after in itertools.pairwise(self.wanted)]
        return sum(after != before for before, after in itertools.pairwise(signs))


@dataclass
class Lives:
    """The times at which each pod reached its states, from `kubectl get pods --watch --output-watch-events`."""

    began: Callable[[str], float]
    """Returns when the process of the pod with this UID began."""
    times: dict[str, dict[str, float]] = field(default_factory=dict)

    def take(self, event: dict) -> None:
        """Records the API server's state."""
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
        """Adds events of pods from another source."""
        for name, at in times.items():
            self.times.setdefault(name, {}).setdefault(what, at)

    def between(self, since: float, begin: str, end: str) -> list[tuple[float, float]]:
        """Returns the times between two events, for each pod that reached both after a given time."""
        return [
            (times[begin], times[end])
            for times in self.times.values()
            if times.get(begin, 0.0) > since and end in times
        ]
