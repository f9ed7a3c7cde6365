"""`gateway-settings`: what one change of the shipped configuration adds to the CPU time, or saves."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from statistics import median

from loadtests.bench.experiment.measurement import measured
from loadtests.bench.experiment.page import Page, cell, percent
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.record import Record, merged
from loadtests.bench.experiment.servers import Running, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.pool import PoolStand, pooled
from loadtests.bench.gateway.settings import NOTHING, SETTINGS, applied, described

PAIRS = 6
"""So often each change is compared in a round."""


class GatewaySettings(Experiment):
    """Both configurations run on one CPU and are loaded alternately, so disturbances affect both."""

    name = "gateway-settings"
    title = "What each setting of the gateway costs"
    help = "CPU per request of the shipped gateway with one setting changed"
    rounds = 6
    seconds = 0.15
    quick = 0.5

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"setting": name} for name in SETTINGS]

    def stand(self, plan: Plan, tasks: Sequence[Task]) -> AbstractContextManager[PoolStand]:
        return pooled(plan)

    def measure(self, stand: PoolStand, task: Task, number: int) -> Iterator[Row]:
        base = proxies.envoy("shipped", stand.rendered)
        changed = applied(task["setting"], stand.rendered)
        if changed.differs_from(base) or task["setting"] == NOTHING:
            with (
                running(base, stand.programs, [stand.cpus[0]]) as first,
                running(changed, stand.programs, [stand.cpus[0]]) as second,
            ):
                yield self._compared(stand, first, second)

    def brief(self, row: Row) -> str:
        return f"{row['change']:+.1%}"

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, LEAD)
        shipped = cell(record.values("base_us"), 1)
        page.points(
            [
                f"The shipped configuration took {shipped} µs per request, in a closed loop.",
                "A setting whose brackets include 0 changed nothing that could be measured.",
                *page.quality(),
            ]
        )
        page.table(
            "setting",
            sorted(record.labels("setting"), key=lambda name: median(_changes(record, name))),
            ("in Envoy's words", described),
            ("CPU per request", lambda name: percent(_changes(record, name), 1)),
        )
        return page

    def _compared(self, stand: PoolStand, first: Running, second: Running) -> Row:
        for process in (first, second):
            self._load(stand, process)
        found: list[tuple[Row, Row]] = []
        for number in range(PAIRS):
            order = (first, second) if number % 2 else (second, first)
            rows = {id(process): self._load(stand, process) for process in order}
            found.append((rows[id(first)], rows[id(second)]))
        return {
            "change": median(changed["cpu_us"] / base["cpu_us"] - 1 for base, changed in found),
            "base_us": median(base["cpu_us"] for base, _ in found),
            **merged(row for pair in found for row in pair),
        }

    def _load(self, stand: PoolStand, process: Running) -> Row:
        seconds = stand.plan.seconds(self.seconds)
        generator, place = stand.programs.generator, stand.place()
        times = {"seconds": seconds, "warm_up": seconds / 3}
        return measured(process, generator, place, "closed", beside=stand.pool, **times)


def _changes(record: Record, name: str) -> list[float]:
    return record.values("change", setting=name)


LEAD = (
    "The shipped configuration with one change each, against the same without it. In each round both are started "
    "again and loaded alternately, a fraction of a second each. Percent of the CPU time; below 0 is cheaper. A figure "
    "is the median of the rounds, each the median of its pairs. The lowest and the highest round are in brackets. "
    "[The comparison of proxies](bench-gateway.md) says how CPU time is measured."
)
