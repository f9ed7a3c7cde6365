"""A fleet as a fluid: work arrives each second, replicas serve it, and an autoscaler sees what Prometheus would.

How much a replica answers in time at a utilisation is what `corelane capacity` says.
"""

import math
import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from loadtests.bench.autoscaling import policy
from loadtests.bench.autoscaling.courses import Course
from loadtests.bench.autoscaling.policy import DOWN, UP, Autoscaler, Direction, Reading

WARM = 900
"""Seconds before a course, which are not counted."""


@dataclass(frozen=True)
class Mix:
    """What the capacity model says about a replica with a mix of requests."""

    lane_seconds: float
    """Lane time of a request."""
    used: tuple[float, ...]
    """Utilisations, ascending."""
    in_time: tuple[float, ...]
    """The share of requests that is in time at each."""
    halved: tuple[float, ...]
    """The same on a replica of half the speed."""
    allowed: float
    """The utilisation that the recording rules allow."""

    def share(self, used: float, *, slow: bool = False) -> float:
        """The share in time at a utilisation."""
        found = self.halved if slow else self.in_time
        if used >= self.used[-1]:
            return found[-1] if used < 1 else 0.0
        at = max(1, bisect(self.used, used))
        low, high = self.used[at - 1], self.used[at]
        part = max(0.0, (used - low) / (high - low))
        return found[at - 1] + part * (found[at] - found[at - 1])

    @cache  # noqa: B019 (there are two)
    def limit(self, share: float) -> float:
        """The highest utilisation with this share in time."""
        return max((n / 1000 for n in range(1, 1000) if self.share(n / 1000) >= share), default=0)


@dataclass(frozen=True)
class World:
    """Times in seconds; the report has their sources."""

    sync: int = 15
    """Between two looks of the autoscaler."""
    scrape: int = 15
    """Between two scrapes, and two evaluations of rules."""
    ready: int = 3
    """From the decision to the first request of a replica."""
    drain: int = 6
    """From the decision to the end of a replica, which no longer serves, but is paid."""
    queue: float = 1.45
    """Work that waits for a lane at most; more is shed."""
    spare: int = 1
    """Replicas that may be away."""
    lead: int = 15
    """For so long the trend of the load is continued."""
    judged: float = 0.995
    """The share in time that the clairvoyant keeps."""


@dataclass
class State:
    """What the metrics are made of: for each second since the warm-up began."""

    busy: list[float] = field(default_factory=lambda: [0.0])
    """Running sum of the lanes that are busy."""
    cpu: list[float] = field(default_factory=lambda: [0.0])
    """Of the CPUs that are used: a slow replica has only half of its own."""
    beyond: list[float] = field(default_factory=lambda: [0.0])
    """Of the lanes that refused requests would have taken."""
    waiting: float = 0.0
    """Lane time that waits."""
    required: list[float] = field(default_factory=list)
    """Lanes that the load requires, at each evaluation of the rules."""
    ready: int = 0
    starting: list[tuple[int, int]] = field(default_factory=list)
    """(second, count) of those that are not ready."""
    fresh: list[tuple[int, int]] = field(default_factory=list)
    """(second, count) of those that became ready so recently that rates do not have them."""

    @property
    def count(self) -> int:
        """Replicas that the autoscaler wants."""
        return self.ready + sum(count for _, count in self.starting)

    @property
    def known(self) -> float:
        """The share of the ready replicas that rates have."""
        return max(0.0, 1 - sum(count for _, count in self.fresh) / max(1, self.ready))

    def mean(self, sums: list[float], window: int, age: int) -> float:
        """Over a window that ended some seconds ago."""
        end = max(0, len(sums) - 1 - age)
        begin = max(0, end - window)
        return (sums[end] - sums[begin]) / max(1, end - begin)


def rate(world: World, state: State, sums: list[float], window: int) -> float:
    """The sum of what Prometheus computes: from the first to the last scrape in the window, which each has at its time."""
    span = window - world.scrape
    ages = range(0, world.scrape, 3)
    return state.known * sum(state.mean(sums, span, age) for age in ages) / len(ages)


@dataclass(frozen=True)
class Policy:
    """What an autoscaler follows."""

    wanted: Callable[[World, State, Mix], int]
    up: Direction = UP
    down: Direction = DOWN


def pods(state: State, total: float, target: float) -> int:
    """By an average over the pods; those that were just started have none."""
    missing = sum(count for _, count in state.fresh)
    known = max(0, state.ready - missing)
    seen = Reading(total, known, state.count - state.ready, missing)
    return policy.by_average(seen, target, state.count)


def by_busy(target: float) -> Callable[[World, State, Mix], int]:
    """The busy share of lanes, as a rate over half a minute."""
    return lambda world, state, _: pods(state, rate(world, state, state.busy, 30), target)


def by_cpu(target: float) -> Callable[[World, State, Mix], int]:
    """CPU utilisation, of which metrics-server keeps the last 15 s, up to as old."""

    def wanted(world: World, state: State, _: Mix) -> int:
        used = state.known * state.mean(state.cpu, 15, len(state.cpu) % 15)
        return pods(state, used, target)

    return wanted


def evaluate(world: World, state: State) -> None:
    """Evaluates the record service:corelane_lanes_required:count."""
    busy, refused = (rate(world, state, sums, 30) for sums in (state.busy, state.beyond))
    state.required.append(busy + refused + state.waiting / 60)


def by_required(world: World, state: State, mix: Mix) -> int:
    """The record service:corelane_replicas_required:count: an external metric with an average of 1."""
    # Prometheus' deriv() over two minutes.
    trend = slope(state.required[-120 // world.scrape :]) / world.scrape
    lanes = state.required[-1] + max(0.0, world.lead * trend)
    required = math.ceil(round(lanes / mix.allowed, 6)) + world.spare
    return policy.by_number(required, state.count)


def slope(values: list[float]) -> float:
    """Of a straight line through them, per step."""
    n = len(values)
    middle = (n - 1) / 2
    above = sum((at - middle) * value for at, value in enumerate(values))
    return above / (n * (n * n - 1) / 12) if n > 1 else 0.0


def clairvoyant(world: World, course: Course, peak: int, mixes: tuple[Mix, Mix]) -> list[int]:
    """The fewest replicas at each second that keep the objective, which start at once."""
    limits = [mix.limit(world.judged) for mix in mixes]
    found = []
    for second in range(course.seconds):
        minute = second / 60
        mix = course.dear(minute)
        lanes = demand(course, minute, peak, mixes)
        speed = 0.95 if course.slow(minute) else 1.0
        found.append(math.ceil(lanes / limits[mix] / speed) + world.spare)
    return found


def demand(course: Course, minute: float, peak: int, mixes: tuple[Mix, Mix]) -> float:
    """Lanes that the load keeps busy; its peak needs as many replicas as the fleet is large."""
    cheap, dear = mixes
    most = peak * cheap.limit(0.995) / course.peak
    cost = dear.lane_seconds / cheap.lane_seconds if course.dear(minute) else 1.0
    return most * course.factor(minute) * cost


@dataclass
class Outcome:
    """What a course was like."""

    requests: float = 0.0
    in_time: float = 0.0
    shed: float = 0.0
    seconds: float = 0.0
    """Replica-seconds."""
    reversals: int = 0
    counts: list[int] = field(default_factory=list)
    """Replicas at each second."""

    @property
    def share(self) -> float:
        """Of the requests, in time."""
        return self.in_time / self.requests


def run(
    world: World, course: Course, chosen: Policy, size: int, mixes: tuple[Mix, Mix], seed: int
) -> Outcome:
    """One course in a fleet."""
    chance = random.Random(seed)
    offset = chance.randrange(world.sync)
    scaler = Autoscaler(world.spare + 1, math.ceil(1.5 * size), chosen.up, chosen.down)
    state, outcome = State(), Outcome()
    state.ready = clairvoyant(world, course, size, mixes)[0]
    going: list[tuple[int, int]] = []
    last = 0
    for now in range(-WARM, course.seconds):
        minute = max(0.0, now / 60)
        mix = mixes[course.dear(minute)]
        _settle(world, state, now)
        lanes = demand(course, minute, size, mixes)
        # Random arrivals.
        requests = max(
            0.0, chance.gauss(lanes / mix.lane_seconds, (lanes / mix.lane_seconds) ** 0.5)
        )
        share, shed = _serve(world, state, mix, requests, slow=course.slow(minute))
        if now % world.scrape == 0:
            evaluate(world, state)
        before = state.count
        # Rates over two minutes are there.
        if now % world.sync == offset and now > 120 - WARM and not course.blind(minute):
            wanted = scaler.sync(now, before, chosen.wanted(world, state, mix))
            going += _scale(world, state, now, wanted)
        if now < 0:
            continue
        if (change := state.count - before) * last < 0:
            outcome.reversals += 1
        last = change or last
        going = [(end, count) for end, count in going if end > now]
        outcome.requests += requests
        outcome.in_time += requests * share
        outcome.shed += shed
        outcome.seconds += state.count + sum(count for _, count in going)
        outcome.counts.append(state.count)
    return outcome


def _settle(world: World, state: State, now: int) -> None:
    """Those that have started are ready. They were scraped as soon as they started, so the next scrape gives a rate."""
    for at, count in state.starting:
        if at <= now:
            state.ready += count
            state.fresh.append((now + world.scrape, count))
    state.starting = [one for one in state.starting if one[0] > now]
    state.fresh = [one for one in state.fresh if one[0] > now]


def _serve(
    world: World, state: State, mix: Mix, requests: float, *, slow: bool
) -> tuple[float, float]:
    """A second of work: the share in time, and the requests that were shed."""
    speed = 0.95 if slow else 1.0
    capacity = max(1, state.ready) * speed
    work = requests * mix.lane_seconds
    served = min(capacity, work + state.waiting)
    left = work + state.waiting - served
    shed = max(0.0, left - world.queue * capacity)
    state.waiting = left - shed
    # Least requests: all replicas are as busy.
    for sums, value in (
        (state.busy, served / speed),
        (state.cpu, served),
        (state.beyond, shed / speed),
    ):
        sums.append(sums[-1] + value)
    # With a tenth of a second's work in queues everybody is late.
    if state.waiting > 0.1 * capacity:
        return 0.0, shed / mix.lane_seconds
    share = mix.share(work / capacity)
    if slow:
        # Of each twenty parts of the work the slow tenth does one.
        share += (mix.share(work / capacity, slow=True) - share) / 19
    return share, shed / mix.lane_seconds


def _scale(world: World, state: State, now: int, wanted: int) -> list[tuple[int, int]]:
    """Starts or ends replicas; those that are not ready go first, as a ReplicaSet has it."""
    change = wanted - state.count
    if change > 0:
        state.starting.append((now + world.ready, change))
        return []
    excess = -change
    while excess and state.starting:
        at, count = state.starting.pop()
        gone = min(excess, count)
        excess -= gone
        if count > gone:
            state.starting.append((at, count - gone))
    state.ready -= excess
    return [(now + world.drain, excess)] if excess else []
