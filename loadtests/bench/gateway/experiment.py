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
from loadtests.bench.experiment.servers import STATIC, Running, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import EACH, GATEWAY, MINIMAL, MUTUAL, PoolBed, Proxy, pooled
from loadtests.usage import positive

TARGET = 1.15

RATE_SHARE = 0.5
"""Open-loop rate, relative to minimal Envoy's throughput in the closed loop."""

ENCRYPTED = 1.08
"""Limit of the CPU time of gateway and replica with mutual TLS, relative to plaintext."""

PAGE = {"page": "/static/4k.txt", "file": STATIC / "4k.txt"}

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


PAIRS = {"files": "4 KiB files at the same rate", "connections": "A connection per request"}
"""Loads that only the gateway with and without mutual TLS gets."""

FEWER, LEAST = 20, 50
"""Divisor of the rate if each request has a handshake, and the lowest such rate."""

BOTH = (
    Figure("gateway, µs/request", "cpu_us"),
    Figure("replica, µs/request", "beside_us"),
    Figure("both, µs/request", "both_us"),
    Figure("requests/s", "requests_per_second", 0),
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
        name, loops = task["proxy"], ("closed", "open")
        encrypted = name.startswith(MUTUAL)
        config = bed.encrypted if encrypted else bed.rendered
        if name in (GATEWAY, MUTUAL):
            proxy, loops = proxies.envoy(name, config), (*loops, "files")
        elif name.endswith(EACH):
            proxy = proxies.envoy(name, proxies.with_a_connection_each(config))
            loops = ("connections",)
        else:
            proxy = proxies.compared(name, bed.rendered, bed.endpoints)
        with running(proxy, bed.programs, [bed.cpus[0]]) as process:
            for loop in loops:
                yield turn(self, bed, process, loop, number, encrypted=encrypted)

    def brief(self, row: Row) -> str:
        rate = row["requests_per_second"]
        return f"{row['loop']} {row['cpu_us']:.2f} µs at {rate:,.0f}/s, {row['wrong']} wrong"

    def verdicts(self, record: Record) -> Iterator[str]:
        for loop, title in LOOPS.items():
            arms = {"proxy": GATEWAY}, {"proxy": MINIMAL}
            if ratios := record.ratios("cpu_us", *arms, loop=loop):
                yield f"{title}: CPU time × {MINIMAL}: {verdict(ratios, TARGET)}."
        arms = {"proxy": MUTUAL}, {"proxy": GATEWAY}
        if ratios := record.ratios("both_us", *arms, loop="files"):
            yield f"{PAIRS['files']}: CPU time with mutual TLS × plaintext: {verdict(ratios, ENCRYPTED)}."

    def report(self, page: Page, record: Record) -> None:
        for loop, title in LOOPS.items():
            page.section(title)
            page.figures("", page.lines("proxy", loop=loop), *FIGURES)
        page.section("Mutual TLS")
        for loop, title in {**LOOPS, **PAIRS}.items():
            lines = page.lines("proxy", loop=loop)
            pair = {it: lines[it] for it in lines if it.startswith((GATEWAY, MUTUAL))}
            pair = {it: at for it, at in pair.items() if it.removesuffix(EACH) in (GATEWAY, MUTUAL)}
            page.figures(title, pair, *BOTH)
        costs = [Figure(f"{LOOPS[loop]}, µs", "cpu_us", where={"loop": loop}) for loop in LOOPS]
        page.chart("CPU time of a request in each proxy", page.lines("proxy"), *costs)


def rate(of: Experiment, bed: PoolBed, proxy: Proxy) -> float:
    """A rate that keeps a proxy's CPU about half busy, in multiples of 1,000."""
    with running(proxy, bed.programs, [bed.cpus[0]]) as process:
        reached = turn(of, bed, process, "closed", 0)["requests_per_second"]
    return max(1.0, RATE_SHARE * reached // 1000) * 1000


def turn(
    of: Experiment, bed: PoolBed, process: Running, loop: str, seed: int, *, encrypted: bool = False
) -> Row:
    seconds, counts = bed.plan.seconds(of.seconds), Counters()
    options = {"seconds": seconds, "warm_up": seconds / 3}
    if loop == "files":
        options |= PAGE
    if loop != "closed":
        rate = bed.facts["rate"]
        rate = max(LEAST, rate / FEWER) if loop == "connections" else rate
        options |= {"rate": rate, "seed": seed}
    during, pool = counts.of(process.pids), bed.guarded if encrypted else bed.pool
    mode = "closed" if loop == "closed" else "open"
    row = bed.load(process, mode, beside=pool, during=during, **options)
    both = row["cpu_us"] + row["beside_us"]
    return {"loop": loop, **row, "both_us": both, **counts.per_request(row["requests"])}
