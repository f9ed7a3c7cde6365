"""Comparisons of builds whose difference is known, with noise like that of a shared machine.

They show how often the verdict is wrong, and how small a difference is found.
"""

import argparse
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from loadtests.bench.compare import verdict
from loadtests.bench.compare.measures import (
    BUILDS,
    LOOKS,
    MARGINS,
    MEASURES,
    ORDERS,
    PATHS,
    Round,
    Sample,
    Slice,
    differences,
)
from loadtests.bench.compare.verdict import VERDICTS, Look
from loadtests.bench.options import positive
from loadtests.bench.text import table


@dataclass(frozen=True)
class Noise:
    """What lies between the truth and a sample, as standard deviations of logarithms."""

    start: float
    """Of a build from one start to the next: where its memory happens to lie."""
    sample: float
    drift: float
    """Of what the machine changes by, evenly, from the first slice of a round to the last."""


NOISE = {
    "cpu": Noise(start=0.01, sample=0.01, drift=0.02),
    "throughput": Noise(start=0.015, sample=0.02, drift=0.03),
    "p50": Noise(start=0.02, sample=0.04, drift=0.05),
    "p99": Noise(start=0.03, sample=0.12, drift=0.05),
}
"""By the kind of measure."""

MACHINES = {"quiet": 0.0, "busy": 0.1}
"""The share of slices that a neighbour disturbs."""

DISTURBED = 0.5
"""A disturbed sample is worse by up to this much, as a logarithm."""


def compared(
    seed: int,
    percent: Mapping[str, float],
    looks: Sequence[int],
    neighbours: float = MACHINES["busy"],
) -> Look:
    """One whole comparison, in which head is worse by so many percent, by the kind of measure."""
    draw = random.Random(seed)
    by_name = {measure.name: MARGINS[measure.kind] for measure in MEASURES}
    rounds: list[Round] = []
    for number in looks:
        rounds += [_round(draw, percent, neighbours) for _ in range(number - len(rounds))]
        found = verdict.look(differences(MEASURES, rounds), by_name, len(looks))
        if found.decided:
            break
    return found


CASES: dict[str, Mapping[str, float]] = {
    "the same": {},
    "the margin in everything": MARGINS,
    "CPU and throughput 5%": {"cpu": 5.0, "throughput": 5.0},
    "CPU and throughput 10%": {"cpu": 10.0, "throughput": 10.0},
    "p99 50%": {"p99": 50.0},
    "CPU and throughput 10% better": {"cpu": -10.0, "throughput": -10.0},
}
"""By how much head is worse."""


def table_of_verdicts(comparisons: int, looks: Sequence[int]) -> str:
    """How often each verdict was given, in percent, and after how many rounds."""
    rows = []
    for (machine, neighbours), (title, percent) in product(MACHINES.items(), CASES.items()):
        found = [compared(seed, percent, looks, neighbours) for seed in range(comparisons)]
        counts = Counter(one.verdict for one in found)
        shares = [f"{100 * counts[name] / comparisons:.1f}" for name in VERDICTS]
        rows.append([machine, title, *shares, f"{fmean(one.rounds for one in found):.1f}"])
    return table(["machine", "head is worse by", *VERDICTS, "rounds"], rows)


def _round(draw: random.Random, percent: Mapping[str, float], neighbours: float) -> Round:
    slices = []
    for path in PATHS:
        for loop in ("closed", "open"):
            kinds = [one.kind for one in MEASURES if (one.path, one.loop) == (path, loop)]
            disturbed = [draw.random() < neighbours for _ in ORDERS[0]]
            slices += _slices(draw, (path, loop), kinds, percent, disturbed)
    return slices


def _slices(
    draw: random.Random,
    place: tuple[str, str],
    kinds: list[str],
    percent: Mapping[str, float],
    disturbed: Sequence[bool],
) -> list[Slice]:
    """The slices of one loop."""
    start = {kind: {build: draw.gauss(0, NOISE[kind].start) for build in BUILDS} for kind in kinds}
    drift = {kind: draw.gauss(0, NOISE[kind].drift) for kind in kinds}
    slices = []
    order = draw.choice(ORDERS)
    for number, build in enumerate(order):
        costs = {}
        for kind in kinds:
            truth = math.log1p(percent.get(kind, 0.0) / 100) if build == "head" else 0.0
            costs[kind] = math.exp(
                truth
                + start[kind][build]
                + drift[kind] * number / (len(order) - 1)
                + draw.gauss(0, NOISE[kind].sample)
                + (draw.uniform(0, DISTURBED) if disturbed[number] else 0.0)
            )
        slices.append(Slice(build, *place, _sample(costs)))
    return slices


def _sample(costs: Mapping[str, float]) -> Sample:
    """As the load generator tells it, of the costs by kind."""
    return {
        "cpu_us": costs.get("cpu", 1.0),
        "requests_per_second": 1 / costs.get("throughput", 1.0),
        "latency_us": {"hello": {"50": costs.get("p50", 1.0), "99": costs.get("p99", 1.0)}},
    }


def add(commands: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "compare-simulated",
        help="how often compare is right, on invented comparisons whose truth is known",
        description="Judges invented rounds by the rules of compare, and prints how often each verdict was given.",
    )
    parser.add_argument(
        "--comparisons", type=positive, default=1000, metavar="N", help="of each row"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    print(table_of_verdicts(options.comparisons, LOOKS))
    return 0
