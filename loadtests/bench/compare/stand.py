"""One round: both builds restart, and their slices are measured alternately on the same CPUs.

A process keeps the memory layout of its start, so each round restarts both. Otherwise a random layout would
look like a difference that no number of slices could separate from a real one (Kalibera and Jones, "Rigorous
benchmarking in reasonable time", ISMM 2013).
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean

from loadtests.bench.compare.builds import ANY, Build
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import CONNECTIONS, SLOW_SHARE, Generator, Place, cpu_of
from loadtests.bench.experiment.plan import Stand
from loadtests.bench.experiment.servers import Running, Server, running
from loadtests.bench.gateway.proxies import Endpoint, Proxy, Replica
from stack.ports import free_ports

Sample = dict
"""What one run of the load generator saw, and the CPU time of what it asked."""

BUILDS = ("base", "head")
PATHS = ("direct", "gateway")

ORDERS = tuple(
    tuple(BUILDS[first ^ int(place)] for place in "01101001") for first in range(len(BUILDS))
)
"""Of the slices of a round: ABBA BAAB, and the same with the builds exchanged. What drifts evenly through a
round meets both alike, and so does a drift that grows evenly."""

LOOKS = (10, 15, 20)
"""Rounds after which the verdict is computed; after other last rounds than the usual, it is computed once."""

MARGINS = {"cpu": 3.0, "throughput": 5.0, "p50": 10.0, "p99": 20.0}
"""Percent by which a build may be slower before it counts, by the kind of measure."""


@dataclass(frozen=True)
class Measure:
    """One quantity, and how much of it does not matter."""

    kind: str
    path: str
    loop: str
    """`closed` or `open`."""
    unit: str
    quantity: Callable[[Sample], float]
    more_is_better: bool = False

    @property
    def name(self) -> str:
        """As in cpu-direct."""
        return f"{self.kind}-{self.path}"

    def costs(self, samples: Iterable[Sample]) -> float:
        """The logarithm of the cost in the mean of some samples: more is worse, for any measure."""
        sign = -1 if self.more_is_better else 1
        return sign * fmean(math.log(self.quantity(sample)) for sample in samples)


@dataclass(frozen=True)
class Slice:
    """One short measurement of one build, in a round."""

    build: str
    path: str
    loop: str
    sample: Sample


Round = Sequence[Slice]


def _cpu(sample: Sample) -> float:
    return sample["cpu_us"]


def _rate(sample: Sample) -> float:
    return sample["requests_per_second"]


def _p50(sample: Sample) -> float:
    return sample["latency_us"]["hello"]["50"]


def _p99(sample: Sample) -> float:
    return sample["latency_us"]["hello"]["99"]


MEASURES = tuple(
    measure
    for path in PATHS
    for measure in (
        Measure("cpu", path, "closed", "µs/request", _cpu),
        Measure("throughput", path, "closed", "requests/s", _rate, more_is_better=True),
        Measure("p50", path, "open", "µs", _p50),
        Measure("p99", path, "open", "µs", _p99),
    )
)


def difference(measure: Measure, done: Round) -> float:
    """The logarithm of what head costs in what base costs, in one round.

    As a mean of logarithms, that of base in head is exactly the opposite of it.
    """
    base, head = (measure.costs(samples(measure, done, build)) for build in BUILDS)
    return head - base


def differences(measures: Iterable[Measure], rounds: Sequence[Round]) -> dict[str, list[float]]:
    """Those of all rounds, by the measure's name."""
    return {measure.name: [difference(measure, done) for done in rounds] for measure in measures}


def samples(measure: Measure, done: Round, build: str) -> list[Sample]:
    """The samples of a build in one round that a measure is taken from."""
    place = (build, measure.path, measure.loop)
    return [one.sample for one in done if (one.build, one.path, one.loop) == place]


WARM_UP = 0.5
"""Before each slice, in its length: it meets a server that other slices have warmed up already."""

WORK_MS = 1.0
"""How long an expensive request of the open loop holds its lane."""

LOAD = 1 / 3
"""Of the open loop, as a share of a saturated lane: cheap requests often find the lane free, and at p99 they do not."""


@dataclass(frozen=True)
class Load:
    """What both builds are asked, found once for a comparison."""

    ops: int
    """Iterations of an expensive request."""
    rate: float
    """Requests per second of the open loop."""


@dataclass
class CompareStand(Stand):
    """What every round uses."""

    builds: Mapping[str, Build] = field(default_factory=dict)
    peers: Path = Path()
    """The folder of the generator: one for both, so that a change of the generator does not look like one of the server."""
    closed: float = 0.0
    """Seconds of a slice of the closed loop; one of the open loop lasts twice as long."""
    load: Load | None = None

    def programs(self, build: str) -> Programs:
        """As those of the benchmarks take them."""
        one = self.builds[build]
        tools = {"envoy": one.envoy} if one.envoy else {}
        return Programs(one.server, self.peers, tools)


@dataclass(frozen=True)
class Asked:
    """What answers: a lane, or a gateway with the replica behind it."""

    front: Running
    behind: tuple[Running, ...] = ()

    def behind_seconds(self) -> float:
        """CPU time of what is not in front."""
        return sum(one.cpu_seconds() for one in self.behind)


@contextlib.contextmanager
def started(stand: CompareStand, path: str, draw: Random) -> Iterator[dict[str, Asked]]:
    """Both builds, in an order that is drawn."""
    with contextlib.ExitStack() as stack:
        order = draw.sample(BUILDS, len(BUILDS))
        yield {build: stack.enter_context(_STARTS[path](stand, build)) for build in order}


def measured_loop(
    stand: CompareStand, asked: Mapping[str, Asked], loop: str, number: int, draw: Random
) -> list[Sample]:
    """The slices of one loop in a round, each with its `build`."""
    order = draw.choice(ORDERS)
    # Two slices in a row are one of each build, and have the same arrivals.
    seeds = [len(order) // 2 * number + place // 2 for place in range(len(order))]
    return [
        {"build": build, **_sample(stand, asked[build], loop, seed)}
        for build, seed in zip(order, seeds, strict=True)
    ]


@contextlib.contextmanager
def _direct(stand: CompareStand, build: str) -> Iterator[Asked]:
    """One lane on the first CPU; the generator has the other."""
    with running(Server(), stand.programs(build), [stand.cpus[0]]) as lane:
        yield Asked(lane)


@contextlib.contextmanager
def _gateway(stand: CompareStand, build: str) -> Iterator[Asked]:
    """Envoy on the first CPU; its replica shares the other with the generator."""
    programs = stand.programs(build)
    replica = Replica("bench", free_ports())
    with running(replica, programs, [stand.cpus[1]]) as behind:
        endpoint = Endpoint(int(behind.address.rpartition(":")[2]), replica.admin_port)
        config = _pointed_at(endpoint, stand.builds[build].gateway)
        proxy = Proxy(f"the gateway of {build}", "envoy", json.dumps(config))
        with running(proxy, programs, [stand.cpus[0]]) as front:
            yield Asked(front, (behind,))


_STARTS = {"direct": _direct, "gateway": _gateway}


def _pointed_at(endpoint: Endpoint, value: object) -> object:
    """A configuration with this replica's ports in place of the placeholders."""
    if isinstance(value, list):
        return [_pointed_at(endpoint, one) for one in value]
    if not isinstance(value, dict):
        return value
    ports = {ANY.port: endpoint.port, ANY.admin_port: endpoint.admin_port}
    return {
        key: ports.get(one, one) if key == "port_value" else _pointed_at(endpoint, one)
        for key, one in value.items()
    }


def _sample(stand: CompareStand, asked: Asked, loop: str, seed: int) -> Sample:
    """One slice."""
    seconds = stand.closed * (2 if loop == "open" else 1)
    options: dict[str, object] = {
        "connections": CONNECTIONS,
        "seconds": seconds,
        "warm_up": WARM_UP * seconds,
    }
    if loop == "open":
        load = stand.load
        options |= {"ops": load.ops, "rate": load.rate, "seed": seed, "work_share": SLOW_SHARE}
    # In an open loop ahead of all others, or it could not send when a request is due.
    place = Place([stand.cpus[1]], first=loop == "open")
    program = stand.programs(BUILDS[0]).generator
    with Generator(program, place, loop, asked.front.address, **options) as generator:
        before = asked.behind_seconds()
        used, sample = cpu_of(asked.front, generator, asked.behind)
        used += asked.behind_seconds() - before
    return {**sample, "cpu_us": used / sample["requests"] * 1e6}
