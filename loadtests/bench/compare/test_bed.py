"""One round: both builds restart, and their slices are measured alternately on the same CPUs.

A process keeps its initial memory layout, so each round restarts both builds. Otherwise a random
layout would look like a difference that no number of slices could distinguish from a real one
(Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013).
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

from loadtests.bench.compare.builds import Build
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import CONNECTIONS, SLOW_SHARE
from loadtests.bench.experiment.plan import Row, TestBed
from loadtests.bench.experiment.servers import Replica, Running, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import Endpoint, Proxy

Slice = dict
"""One short measurement of one `build`: load generator results and CPU time of the processes."""

BUILDS = ("base", "head")
PATHS = ("direct", "gateway")

ORDERS = tuple(
    tuple(BUILDS[first ^ int(place)] for place in "01101001") for first in range(len(BUILDS))
)
"""Orders of the slices in a round: ABBA BAAB, and the same with the builds exchanged. A constant or
evenly growing drift within a round therefore affects both builds equally.
"""

MARGINS = {"cpu": 3.0, "throughput": 5.0, "p50": 10.0, "p99": 20.0}
"""Tolerated slowdown in percent, by kind of measure."""

WARM_UP = 0.5
"""Length of the warm-up before each slice, relative to the slice: earlier slices have already
warmed up the server.
"""


@dataclass(frozen=True)
class Measure:
    """A quantity with its tolerated difference."""

    kind: str
    path: str
    loop: str
    unit: str
    quantity: Callable[[Slice], float]
    sign: int = 1
    """-1 if higher is better."""

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.path}"

    def of(self, row: Row, build: str) -> list[float]:
        return [self.quantity(one) for one in row["slices"] if one["build"] == build]

    def difference(self, row: Row) -> float:
        """Logarithm of head's cost relative to base in one round: higher is worse.

        A mean of logarithms makes the ratio of base to head exactly the opposite.
        """
        base, head = (fmean(map(math.log, self.of(row, build))) for build in BUILDS)
        return self.sign * (head - base)


MEASURES = tuple(
    measure
    for path in PATHS
    for measure in (
        Measure("cpu", path, "closed", "µs/request", lambda one: one["cpu_us"]),
        Measure(
            "throughput", path, "closed", "requests/s", lambda one: one["requests_per_second"], -1
        ),
        Measure("p50", path, "open", "µs", lambda one: one["latency_us"]["hello"]["50"]),
        Measure("p99", path, "open", "µs", lambda one: one["latency_us"]["hello"]["99"]),
    )
)


@dataclass(frozen=True)
class Load:
    ops: int
    rate: float


@dataclass
class CompareBed(TestBed):
    """State shared by all rounds. Both builds use one generator, so that a change of the generator
    does not look like a change of the server.
    """

    builds: Mapping[str, Build] = field(default_factory=dict)
    closed: float = 0.0
    """Seconds of a closed-loop slice; an open-loop slice lasts twice as long."""
    open: Load | None = None

    def of(self, build: str) -> Programs:
        one = self.builds[build]
        return Programs(one.server, self.programs.peers, {"envoy": one.envoy} if one.envoy else {})


Asked = tuple[Running, tuple[Running, ...]]
"""The process that responds, which is a lane or a gateway, and the replicas behind it."""


@contextlib.contextmanager
def started(bed: CompareBed, path: str, draw: Random) -> Iterator[dict[str, Asked]]:
    with contextlib.ExitStack() as stack:
        order = draw.sample(BUILDS, len(BUILDS))
        start = {"direct": _direct, "gateway": _gateway}[path]
        yield {build: stack.enter_context(start(bed, build)) for build in order}


@contextlib.contextmanager
def _direct(bed: CompareBed, build: str) -> Iterator[Asked]:
    with running(Replica(), bed.of(build), [bed.cpus[0]]) as lane:
        yield lane, ()


@contextlib.contextmanager
def _gateway(bed: CompareBed, build: str) -> Iterator[Asked]:
    """Starts Envoy on the first CPU; its replica shares the other CPU with the generator."""
    programs, replica = bed.of(build), Replica(pin="off")
    with running(replica, programs, [bed.cpus[1]]) as behind:
        pool = [Endpoint(behind.port, replica.admin_port)]
        text = proxies.pointed(bed.builds[build].gateway, pool)
        proxy = Proxy(f"the gateway of {build}", "envoy", text)
        with running(proxy, programs, [bed.cpus[0]]) as front:
            yield front, (behind,)


def slices(
    bed: CompareBed, asked: Mapping[str, Asked], loop: str, number: int, draw: Random
) -> Sequence[Slice]:
    order = draw.choice(ORDERS)
    # Two consecutive slices measure each build once, with the same arrivals.
    seeds = [len(order) // 2 * number + place // 2 for place in range(len(order))]
    found = []
    for build, seed in zip(order, seeds, strict=True):
        front, behind = asked[build]
        seconds = bed.closed * (2 if loop == "open" else 1)
        options = {"connections": CONNECTIONS, "seconds": seconds, "warm_up": WARM_UP * seconds}
        if loop == "open":
            options |= {"ops": bed.open.ops, "rate": bed.open.rate}
            options |= {"seed": seed, "work_share": SLOW_SHARE}
        row = bed.load(front, loop, beside=behind, **options)
        found.append({"build": build, **row, "cpu_us": row["cpu_us"] + row["beside_us"]})
    return found
