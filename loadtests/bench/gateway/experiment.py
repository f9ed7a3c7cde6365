"""`gateway`: CPU time of a request in the shipped gateway, a minimal Envoy, nginx and HAProxy."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loadtests.bench.cpu import Counters
from loadtests.bench.experiment.generator import measured
from loadtests.bench.experiment.page import LEGEND, Page, cell, middle, verdict
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Task
from loadtests.bench.experiment.plots import Panel, Plot, Series
from loadtests.bench.experiment.record import Record
from loadtests.bench.experiment.servers import Running, running
from loadtests.bench.gateway import proxies
from loadtests.bench.gateway.proxies import (
    GATEWAY,
    HAPROXY,
    LEAN,
    MINIMAL,
    NGINX,
    SILENT,
    PoolStand,
    Proxy,
    pooled,
)
from loadtests.bench.options import positive

TARGET = 1.15
"""Most CPU time of the shipped gateway, in that of minimal Envoy."""

RATE_SHARE = 0.5
"""The rate of the open loop, in what minimal Envoy reaches in the closed one."""

LOOPS = {"open": "At the same rate", "closed": "As fast as they can"}


class Gateway(Experiment):
    """Every proxy in a closed loop, and at a rate that is the same for all."""

    name = "gateway"
    title = "What a request costs in the gateway"
    help = "CPU per request of the gateway, compared with a minimal Envoy, nginx and HAProxy"
    rounds = 9
    seconds = 1.5

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--rate", type=positive, metavar="N", help="requests/s of the open loop; default: found"
        )

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"proxy": name} for name in proxies.NAMES]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[PoolStand]:
        with pooled(plan) as stand:
            minimal = proxies.minimal(stand.endpoints)
            stand.facts["rate"] = plan.options.rate or rate(self, stand, minimal)
            yield stand

    def measure(self, stand: PoolStand, task: Task, number: int) -> Iterator[Row]:
        known = proxies.compared(stand.rendered, stand.endpoints)
        proxy = next(one for one in known if one.name == task["proxy"])
        with running(proxy, stand.programs, [stand.cpus[0]]) as process:
            for loop in ("closed", "open"):
                yield turn(self, stand, process, loop, number)

    def brief(self, row: Row) -> str:
        rate = row["requests_per_second"]
        return f"{row['loop']} {row['cpu_us']:.2f} µs at {rate:,.0f}/s, {row['wrong']} wrong"

    def page(self, record: Record) -> Page:
        page = Page(self.title, record, LEGEND, LEAD)
        page.section("Reading")
        page.points([*_reading(record), *page.quality()])
        page.plot(_plot(record))
        for loop, title in LOOPS.items():
            page.section(title, METHODS[loop].format(**record.facts))
            _table(page, record, loop)
        page.section("How it is measured", METHOD.format(*record.cpus))
        return page


def rate(of: Experiment, stand: PoolStand, proxy: Proxy) -> float:
    """A rate that keeps the CPU of a proxy about half busy, in whole thousands."""
    with running(proxy, stand.programs, [stand.cpus[0]]) as process:
        reached = _load(of, stand, process, "closed")["requests_per_second"]
    return max(1.0, RATE_SHARE * reached // 1000) * 1000


def turn(of: Experiment, stand: PoolStand, process: Running, loop: str, seed: int) -> Row:
    """One load on a proxy that runs; `seed` is that of the arrivals."""
    more = {"rate": stand.facts["rate"], "seed": seed} if loop == "open" else {}
    return {"loop": loop, **_load(of, stand, process, loop, **more)}


def _load(of: Experiment, stand: PoolStand, process: Running, loop: str, **more: float) -> Row:
    seconds = stand.plan.seconds(of.seconds)
    counts = Counters()
    row = measured(
        process,
        stand.programs.generator,
        stand.place(first=loop == "open"),
        loop,
        beside=stand.pool,
        during=counts.of(process.pids),
        seconds=seconds,
        warm_up=seconds / 3,
        **more,
    )
    return {**row, **counts.per_request(row["requests"])}


def _reading(record: Record) -> Iterator[str]:
    for name in (GATEWAY, SILENT, LEAN, NGINX, HAPROXY):
        ratios = {loop: _ratios(record, name, loop) for loop in LOOPS}
        if not all(ratios.values()):
            continue
        told = f"{cell(ratios['open'], 2)} at the same rate and {cell(ratios['closed'], 2)} in a closed loop"
        sentence = f"{name} takes {told} of minimal Envoy's CPU time."
        if name == GATEWAY:
            worst = max(ratios.values(), key=lambda found: sorted(found)[len(found) // 2])
            sentence += f" That {verdict(worst, TARGET)}."
        yield sentence


def _ratios(record: Record, name: str, loop: str) -> list[float]:
    return record.ratios("cpu_us", {"proxy": name}, {"proxy": MINIMAL}, loop=loop)


def _table(page: Page, record: Record, loop: str) -> None:
    def values(name: str, figure: str) -> list[float]:
        return record.values(figure, proxy=name, loop=loop)

    page.table(
        "",
        record.labels("proxy"),
        ("CPU, µs/request", lambda name: cell(values(name, "cpu_us"), 2)),
        (f"× {MINIMAL}", lambda name: cell(_ratios(record, name, loop), 2)),
        ("user, %", lambda name: middle(values(name, "user_share"), 0, 100)),
        ("sleeps/request", lambda name: middle(values(name, "sleeps"), 2)),
        ("requests/s", lambda name: middle(values(name, "requests_per_second"), 0)),
        ("proxy's CPU busy", lambda name: middle(values(name, "busy"), 2)),
        ("p99, ms", lambda name: cell(values(name, "latency_us.hello.99"), 2, 1e-3)),
    )


def _plot(record: Record) -> Plot:
    series = [
        Series(
            title,
            [(p, record.values("cpu_us", proxy=p, loop=loop)) for p in record.labels("proxy")],
        )
        for loop, title in LOOPS.items()
    ]
    return Plot("CPU time of a request in each proxy", [Panel(series, x="µs", kind="bars")])


LEAD = (
    "[gateway/cost.md](../../gateway/cost.md) says where the time goes and what each setting adds."
)

METHODS = {
    "open": (
        "Open loop, Poisson arrivals of {rate:,.0f} requests/s: every proxy does the same work in the same time, "
        "and wakes up as often as that takes."
    ),
    "closed": (
        "Closed loop: each connection sends its next request as soon as the reply arrives. A proxy whose CPU is busy finds "
        "several requests in each poll and shares its cost. A proxy that is faster than the load waits more often "
        "(`sleeps`), which makes each request more expensive."
    ),
}

METHOD = """\
`GET /hello`, 13 bytes, on 64 keep-alive connections, through the proxy to a pool of two replicas of
corelane-server, the same pool for all. The proxy has CPU {0} for itself, with one worker or thread; the generator
and the pool share CPU {1}. Each measurement starts its proxy and warms it up; each round has another order, and
ratios are taken within the round.

CPU time is the CPU clock of the proxy's processes (clock_getcpuclockid(3)), all threads. It includes the kernel's
work for their system calls; in loopback that is also TCP's work of the other side, for each packet that the proxy
sends. User time is split by the kernel's ticks. `sleeps` are voluntary context switches.

nginx and HAProxy keep connections alive on both sides, balance round robin and forward the client's address
(`nginx.conf` and `haproxy.cfg` in `loadtests/bench/gateway`). A full log has one JSON line for each request with
the same fields, as far as the proxy has them. Envoy and nginx write blocks of 64 KiB, HAProxy single lines."""
