"""More and more pods behind the gateway, and more gateways: CPU per request, updates, memory, health checks."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from loadtests.bench.experiment.servers import Running, running
from loadtests.bench.field.bench import Bench
from loadtests.bench.field.scaling import balancers
from loadtests.bench.field.scaling.fleet import (
    FULL_SCAN,
    POLICIES,
    Gateway,
    gateway,
    rendered,
    replicas,
)
from loadtests.bench.field.scaling.load import Cell, tried
from loadtests.bench.field.scaling.plan import Sizes, rounds
from loadtests.bench.field.scaling.pods_figures import Found
from loadtests.bench.gateway.proxies import Proxy

CONNECTIONS = 64
UPDATES = 10
PAUSE = 0.05
"""Between two updates: as long as gateway-agent leaves at least."""

IDLE = 1.0
"""Seconds without requests; a whole number of the chart's health.interval, so that all pods are checked equally
often."""


@dataclass(frozen=True)
class Stand:
    """What every measurement of pods uses."""

    bench: Bench
    sizes: Sizes
    tools: dict[str, Path]
    port: int
    """Of all pods."""
    folder: Path
    configurations: dict[str, dict]
    """Of the gateway, by policy."""
    found: Found

    def load(self, name: str, server: Running) -> Cell:
        """A closed loop on a proxy."""
        place = self.bench.place()
        cell = Cell.of(self.bench, server, place, self.sizes, connections=CONNECTIONS)
        self.found.seen.add(name, cell)
        return cell

    def grown(self, order: Random, folder: Path) -> None:
        """A gateway of each policy side by side, so that what disturbs meets both; their pods become ever more."""
        first = list(range(self.sizes.pods[0]))
        with ExitStack() as stack:
            gateways = {
                policy: stack.enter_context(self.gateway(policy, first, folder / str(index)))
                for index, policy in enumerate(POLICIES)
            }
            for count in self.sizes.pods:
                turns = order.sample(list(gateways.items()), len(gateways))
                costs = {policy: self.asked(policy, proxy, count) for policy, proxy in turns}
                self.found.compared(count, costs)
                if count in self.sizes.updates:
                    self.updated(gateways[FULL_SCAN], list(range(count)))

    def asked(self, policy: str, proxy: Gateway, count: int) -> float:
        """CPU time per request with so many pods."""
        found = self.found
        if count != self.sizes.pods[0]:
            found.grown.add(policy, count, proxy.has(list(range(count))))
        cell = self.load(policy, proxy.process)
        found.cost.add(policy, count, cell.cpu_us)
        found.memory.add(policy, count, cell.resident_kib)
        return cell.cpu_us

    def updated(self, proxy: Gateway, pods: list[int]) -> None:
        """What so many pods cost without requests: their checks, and updates of one of them."""
        found, count = self.found, len(pods)
        idle = proxy.idle(IDLE) / IDLE
        found.idle.add(FULL_SCAN, count, idle * 1e6)
        # Another pod takes the place of the last, and then gives it back.
        swapped = [*pods[:-1], count]
        used = proxy.replaces([swapped, pods] * (UPDATES // 2), PAUSE) - idle * PAUSE * UPDATES
        found.update_cpu.add(FULL_SCAN, count, max(0.0, used) / UPDATES * 1e6)
        for members in (swapped, pods):
            found.update.add(FULL_SCAN, count, proxy.has(members))
        found.size.add("file of endpoints", count, proxy.file_bytes)

    def other(self, proxy: Proxy, count: int) -> None:
        """Another proxy with so many pods."""
        programs = balancers.programs(self.tools)
        with running(proxy, programs, [self.bench.cpus[0]]) as server:
            cell = self.load(proxy.name, server)
        self.found.cost.add(proxy.name, count, cell.cpu_us)
        self.found.memory.add(proxy.name, count, cell.resident_kib)

    def many(self) -> None:
        """Several gateways before all pods: who checks how often."""
        pods = list(range(self.sizes.pods[-1]))
        with ExitStack() as stack:
            gateways = [
                stack.enter_context(self.gateway(FULL_SCAN, pods, self.folder / f"many-{number}"))
                for number in range(self.sizes.gateways)
            ]
            before = [one.checks() for one in gateways]
            begun = time.monotonic()
            time.sleep(IDLE)
            done = [one.checks() - known for one, known in zip(gateways, before, strict=True)]
            seconds = time.monotonic() - begun
        for count in range(1, self.sizes.gateways + 1):
            self.found.checks.add("all gateways", count, sum(done[:count]) / seconds)

    def gateway(
        self, policy: str, pods: list[int], folder: Path
    ) -> AbstractContextManager[Gateway]:
        """One on the proxies' CPU."""
        configuration, cpu = self.configurations[policy], self.bench.cpus[0]
        return gateway(self.tools, configuration, pods, self.port, cpu, folder)


def measure(bench: Bench, sizes: Sizes, tools: dict[str, Path]) -> dict:
    """The part `pods`."""
    with _stand(bench, sizes, tools) as stand:
        for number, order in rounds(sizes, "pods"):
            folder = stand.folder / str(number)
            tried("pods", "gateways", lambda to=folder, by=order: stand.grown(by, to))
            for count in order.sample(sizes.updates, len(sizes.updates)):
                for proxy in balancers.others(range(count), stand.port):
                    name = f"{proxy.name}, {count}"
                    tried("pods", name, lambda one=proxy, count=count: stand.other(one, count))
        if sizes.gateways > 1:
            tried("pods", f"{sizes.gateways} gateways", stand.many)
        return stand.found.part()


@contextmanager
def _stand(bench: Bench, sizes: Sizes, tools: dict[str, Path]) -> Iterator[Stand]:
    configurations = {name: rendered(tools, policy) for name, policy in POLICIES.items()}
    with replicas(bench) as port, tempfile.TemporaryDirectory(prefix="bench-field-") as name:
        yield Stand(bench, sizes, tools, port, Path(name), configurations, Found())
