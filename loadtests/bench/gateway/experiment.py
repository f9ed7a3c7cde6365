"""`gateway`: measures the CPU time per request of the shipped gateway, a minimal Envoy, nginx and
HAProxy.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loadtests.bench.cpu import Counters
from loadtests.bench.experiment.base import Experiment
from loadtests.bench.experiment.page import Figure, Page, verdict
from loadtests.bench.experiment.plan import Plan, Row, Task
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import Running, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import GATEWAY, MINIMAL, PoolBed, Proxy, pooled
from loadtests.usage import positive

TARGET = 1.15

RATE_SHARE = 0.5
"""Open-loop rate, relative to minimal Envoy's throughput in the closed loop."""

LOOPS = {"open": "At the same rate", "closed": "As fast as they can"}

FIGURES = (
    Figure("CPU, µs/request", "cpu_us"),
    Figure(f"× {MINIMAL}", "cpu_us", over={"proxy": MINIMAL}),
    Figure("user, %", "user_share", 0, 100, brief=True),
    Figure("sleeps/request", "sleeps", brief=True),
    Figure("requests/s", "requests_per_second", 0, brief=True),
    Figure("proxy's CPU busy", "busy", brief=True),
    Figure("p99, ms", "latency_us.hello.99", 2, 1e-3),
)


class Gateway(Experiment):
    """Measures every proxy in a closed loop, and at a rate that is the same for all proxies."""

    name = "gateway"
    title = "Cost of a request in the gateway"
    help = "CPU per request of the gateway, compared with a minimal Envoy, nginx and HAProxy"
    lead = "The method: docs/results/bench-gateway.md. Where the time goes: gateway/cost.md."
    rounds = 9
    seconds = 1.5

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--rate", type=positive, metavar="N", help="requests/s of the open loop; default: found"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"proxy": name} for name in proxies.NAMES]

    @contextmanager
    def test_bed(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[PoolBed]:
        with pooled(plan) as bed:
            minimal = proxies.compared(MINIMAL, bed.rendered, bed.endpoints)
            bed.facts["rate"] = plan.options.rate or rate(self, bed, minimal)
            yield bed

    def measure(self, bed: PoolBed, task: Task, number: int) -> Iterator[Row]:
        proxy = proxies.compared(task["proxy"], bed.rendered, bed.endpoints)
        with running(proxy, bed.programs, [bed.cpus[0]]) as process:
            for loop in ("closed", "open"):
                yield turn(self, bed, process, loop, number)

    def brief(self, row: Row) -> str:
        rate = row["requests_per_second"]
        return f"{row['loop']} {row['cpu_us']:.2f} µs at {rate:,.0f}/s, {row['wrong']} wrong"

    def verdicts(self, record: Record) -> Iterator[str]:
        for loop, title in LOOPS.items():
            arms = {"proxy": GATEWAY}, {"proxy": MINIMAL}
            if ratios := record.ratios("cpu_us", *arms, loop=loop):
                yield f"{title}: CPU time × {MINIMAL}: {verdict(ratios, TARGET)}."

    def report(self, page: Page, record: Record) -> None:
        for loop, title in LOOPS.items():
            page.section(title)
            page.figures("", page.lines("proxy", loop=loop), *FIGURES)
        costs = [Figure(f"{LOOPS[loop]}, µs", "cpu_us", where={"loop": loop}) for loop in LOOPS]
        page.chart("CPU time of a request in each proxy", page.lines("proxy"), *costs)


def rate(of: Experiment, bed: PoolBed, proxy: Proxy) -> float:
    """A rate that keeps a proxy's CPU about half busy, in multiples of 1,000."""
    with running(proxy, bed.programs, [bed.cpus[0]]) as process:
        reached = turn(of, bed, process, "closed", 0)["requests_per_second"]
    return max(1.0, RATE_SHARE * reached // 1000) * 1000


def turn(of: Experiment, bed: PoolBed, process: Running, loop: str, seed: int) -> Row:
    seconds, counts = bed.plan.seconds(of.seconds), Counters()
    options = {"seconds": seconds, "warm_up": seconds / 3}
    if loop == "open":
        options |= {"rate": bed.facts["rate"], "seed": seed}
    during = counts.of(process.pids)
    row = bed.load(process, loop, beside=bed.pool, during=during, **options)
    return {"loop": loop, **row, **counts.per_request(row["requests"])}
