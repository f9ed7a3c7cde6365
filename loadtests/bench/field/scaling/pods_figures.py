"""What is measured of a fleet, and what can be read from it."""

import math
from statistics import median

from loadtests.bench.field.scaling.figures import Series
from loadtests.bench.field.scaling.fleet import FULL_SCAN, TWO_CHOICES
from loadtests.bench.field.scaling.load import Seen
from loadtests.bench.field.scaling.model import Fleet, Growth, crossing

BEYOND = (512, 1024, 2048)

SCAN_RATIO = "full scan ÷ two choices"

DEARER = 0.03
"""How much more CPU a policy may take and still be the default (gateway/balancing.md)."""

LARGE = Fleet(pods=1000, gateways=10)
"""Of which the notes tell what its size alone costs."""

ABOUT = (
    "The gateway as the chart renders it, with one worker on one CPU, endpoints from a file, and health checks each "
    "second; 64 connections, `/hello`, closed loop. All pods are one program, the floor, which answers at so many "
    "addresses of loopback on the generator's CPU. nginx and HAProxy stand beside it with least connections, and "
    "check nobody's health."
)


class Found:
    """What was measured so far."""

    def __init__(self) -> None:
        def by_pods(key: str, title: str, unit: str, digits: int = 0) -> Series:
            return Series(key, title, unit, "pods", digits, log_x=True)

        self.cost = by_pods("cpu_us", "CPU per request of the proxy", "µs", 2)
        self.ratio = by_pods("ratio", f"CPU per request, {SCAN_RATIO}", "×", 2)
        self.memory = by_pods("memory_kib", "Memory of the proxy", "KiB")
        self.grown = by_pods("grown_ms", "From a file with more pods to the use of all", "ms", 1)
        self.update = by_pods("update_ms", "From a file with another pod to its use", "ms", 1)
        self.update_cpu = by_pods("update_cpu_us", "CPU of an update that replaces one pod", "µs")
        self.size = by_pods("file_bytes", "Size of the file of endpoints", "bytes")
        self.idle = by_pods("idle_us", "CPU of a gateway that nobody asks", "µs/s")
        self.checks = Series("checks", "Health checks of all gateways", "1/s", "gateways", 0)
        self.seen = Seen()

    def compared(self, pods: int, costs: dict[str, float]) -> None:
        """What the two policies cost, one right after the other."""
        self.ratio.add(SCAN_RATIO, pods, costs[FULL_SCAN] / costs[TWO_CHOICES])

    def part(self) -> dict:
        """For the report."""
        costs = self.cost.laws(forms=("constant", "log2 n", "n"))
        linear = ("constant", "n")
        laws = [
            (self.cost, costs),
            *((one, one.laws(forms=linear)) for one in (self.ratio, *self._linear())),
        ]
        figures = [series.figure(found, BEYOND) for series, found in laws if series.values]
        if self.checks.values:
            figures.append(self.checks.figure())
        return self.seen.part(ABOUT, figures, [*_policies(self.ratio), *self._large()])

    def _linear(self) -> list[Series]:
        return [self.memory, self.grown, self.update, self.update_cpu, self.size, self.idle]

    def _large(self) -> list[str]:
        """What a fleet costs by its size alone."""
        idle, size = self.idle.laws(forms=("n",)), self.size.laws(forms=("n",))
        if not idle or not size:
            return []
        check, each = idle[FULL_SCAN].slope, median(law.slope for law in size.values())
        told = (
            f"{LARGE.pods:,} pods behind {LARGE.gateways} gateways: {LARGE.checks_per_second():,.0f} health checks a "
            f"second, which take {LARGE.check_cores(check):.2f} CPUs of the gateways ({check:.0f} µs each); one pod "
            f"that changes has {LARGE.update_bytes(each) / 1e6:.1f} MB of endpoints written, and a roll-out "
            f"of all {LARGE.rollout_bytes(each) / 1e9:.1f} GB if each change were a file of its own."
        )
        return [told]


def _policies(ratios: Series) -> list[str]:
    """From how many pods on the full scan is too dear."""
    laws = ratios.laws(forms=("constant", "n"))
    if not laws:
        return []
    law = laws[SCAN_RATIO]
    pods = crossing(Growth("constant", 1.0, 0.0, 0.0), law, DEARER)
    if law.form == "constant" or math.isinf(pods):
        return [f"The full scan costs ×{law.base:.2f} of two choices, whatever the number of pods."]
    return [
        f"By its law the full scan takes {DEARER:.0%} more CPU per request than two choices from {pods:.0f} pods on."
    ]
