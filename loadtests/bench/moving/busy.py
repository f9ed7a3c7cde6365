"""Connections that never rest: what parking and moving cost those who do not need them."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.field.contender import DIV, HELLO
from loadtests.bench.field.workloads import REQUESTS
from loadtests.bench.lanes.rows import cpu_of
from loadtests.bench.moving.bench import Bench, Sample, others
from loadtests.bench.moving.replica import ACTIVE, OFF, PARKED_ONLY, Arm, Replica, Server, serving
from loadtests.compare.signed_rank import SignedRank

CONNECTIONS = 64
DEFAULT_PARK = "5s"
BASE = Arm("off")
ERROR = 0.025
"""Of an interval, on either side."""


@dataclass(frozen=True)
class Setting:
    """Servers that are compared with the one that neither parks nor moves."""

    lanes: int
    targets: Sequence[str]
    arms: Sequence[Arm]


SETTINGS = {
    "one lane": Setting(
        1, (HELLO, DIV), (BASE, Arm("off again"), Arm("park_after 5 s", OFF, DEFAULT_PARK))
    ),
    "two lanes": Setting(
        2,
        (HELLO,),
        (
            BASE,
            Arm("off again"),
            Arm("parked-only", PARKED_ONLY, DEFAULT_PARK),
            Arm("active", ACTIVE, DEFAULT_PARK),
        ),
    ),
}
"""One lane has a CPU alone, and the generator the other. Two lanes share theirs with it."""

NAMES = [
    f"{name}, {target}: {arm.name}"
    for name, setting in SETTINGS.items()
    for target in setting.targets
    for arm in setting.arms
]


def measured(bench: Bench) -> Iterator[tuple[str, int, Sample]]:
    """Setting, target and arm; round; and what was seen. Who is first is drawn by lot in each round."""
    for name, setting in SETTINGS.items():
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
            cpus = list(bench.cpus[: setting.lanes])
            servers = {
                arm: stack.enter_context(serving(Replica(arm, setting.lanes), bench.programs, cpus))
                for arm in setting.arms
            }
            # The first of each is the warm-up.
            for number in range(bench.size.pairs + 1):
                for target in setting.targets:
                    order = random.Random(f"{number} {target}").sample(
                        setting.arms, len(setting.arms)
                    )
                    for arm in order:
                        sample = _load(bench, setting, servers[arm], target, folder)
                        if number:
                            yield f"{name}, {target}: {arm.name}", number, sample


def _load(bench: Bench, setting: Setting, server: Server, target: str, folder: Path) -> Sample:
    seconds = bench.size.slice_seconds
    options = {"connections": CONNECTIONS, "seconds": seconds, "warm_up": seconds / 3}
    options |= REQUESTS[target].options(folder)
    if setting.lanes == 1:
        # A lane that wakes a sleeping generator pays for it, more or less by chance.
        generator = bench.beside("closed", server.address, spin=True, **options)
    else:
        generator = bench.generator("closed", server.address, seats="0,1", **options)
    with generator as load:
        used, result = cpu_of(server.process, load)
    return {
        "requests": result["requests"],
        "wrong": result["wrong"],
        "cpu_us": used / result["requests"] * 1e6,
        "requests_per_second": result["requests_per_second"],
        **others(result),
    }


def compared(samples: Sequence[Sample], base: Sequence[Sample], figure: str) -> SignedRank:
    """By how many percent a figure differs, in rounds of both."""
    pairs = zip(samples, base, strict=True)
    return SignedRank([100 * (mine[figure] / other[figure] - 1) for mine, other in pairs])
