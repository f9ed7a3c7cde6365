"""The gateway as its chart renders it, nginx and HAProxy before the same replicas."""

import random
from collections.abc import Sequence
from functools import partial

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import cpu_of
from loadtests.bench.experiment.servers import Running
from loadtests.bench.field import measures
from loadtests.bench.field.bench import CONNECTIONS, Bench, Plan
from loadtests.bench.field.contender import HELLO, Contender
from loadtests.bench.field.workloads import REQUESTS
from loadtests.bench.gateway import proxies, shipped
from loadtests.bench.gateway.pool import TOOLS, replicas
from loadtests.bench.gateway.proxies import Programs, Proxy, versions
from loadtests.bench.gateway.shipped import Endpoint
from tools import progress, resolve
from tools.errors import ToolError

NAME = "proxies"

WARM_UP = 0.5
RATE = REQUESTS[HELLO].rate
"""Of the open loop: that of `hello` without a proxy."""

SETTINGS = {
    "corelane-gateway": (
        "Envoy as the gateway's chart renders it with its default values, one worker: least request over "
        "all replicas, health checks, retries, limits, request ids, its log: 1% of requests, errors and slow ones"
    ),
    "nginx": (
        "one worker, kept-alive connections on both sides (128 to the replicas), keepalive_requests without "
        "a bound, no access log"
    ),
    "haproxy": "one thread, kept-alive connections on both sides, http-reuse always, no log",
}

Sample = dict


def prepare(_profile: str) -> None:
    """Obtains the proxies. What stands behind them is a contender, and mostly built as such."""
    resolve.ensure(TOOLS)


def seconds(plan: Plan, _contenders: Sequence[Contender]) -> float:
    """How long it takes."""
    one = 1.0 + 2 * WARM_UP + plan.seconds.closed + plan.seconds.open
    return 1.0 + plan.rounds * len(SETTINGS) * one


def measure(bench: Bench, plan: Plan) -> dict:
    """All proxies in each round, in an order of its own."""
    server = plan.server or bench.programs.get(servers.CORELANE)
    server = (
        server
        or builds.build(builds.SERVICES, ["corelane-server"], bench.profile) / servers.CORELANE
    )
    programs = Programs(resolve.ensure(TOOLS), bench.generator, server)
    samples: dict[str, list[Sample]] = {name: [] for name in SETTINGS}
    with replicas(programs, bench.cpus[1]) as (pool, endpoints):
        compared = _compared(programs, endpoints)
        for number in range(1, plan.rounds + 1):
            order = random.Random(plan.seed * 1000 + number).sample([*compared], len(compared))
            for name in order:
                try:
                    sample = _sample(bench, plan, programs, pool, compared[name], number)
                except ToolError as error:
                    progress.say(NAME, f"{name}: {error}")
                    continue
                samples[name].append({"round": number, **sample})
                told = f"{name}: {sample['cpu_us']:.1f} µs, {sample['requests_per_second']:,.0f}/s"
                progress.say(f"{NAME} {number}/{plan.rounds}", told)
    return {NAME: samples, "proxy_settings": _described(programs)}


def _compared(programs: Programs, endpoints: Sequence[Endpoint]) -> dict[str, Proxy]:
    rendered = shipped.configuration(programs.tools, endpoints)
    found = {proxy.name: proxy for proxy in proxies.compared(rendered, endpoints)}
    names = (proxies.GATEWAY, proxies.NGINX, proxies.HAPROXY)
    return {name: found[known] for name, known in zip(SETTINGS, names, strict=True)}


def _sample(
    bench: Bench, plan: Plan, programs: Programs, pool: Sequence[Running], proxy: Proxy, number: int
) -> Sample:
    with servers.running(proxy, programs, [bench.cpus[0]]) as process:
        load = partial(_load, bench, pool, process)
        closed, used = load("closed", bench.place(), seconds=plan.seconds.closed)
        found = measures.counted(used, closed)
        # Ahead of the replicas on the same CPU, or it could not send when a request is due.
        times = {"seconds": plan.seconds.open, "rate": RATE, "seed": number, "curve": True}
        opened, used = load("open", bench.place(first=True), **times)
    return {
        **found,
        "wrong": found["wrong"] + opened["wrong"],
        "rate": RATE,
        "latency_ms": measures.latency(opened["latency_us"].get("all")),
        "percentiles": [[percent, us / 1e3] for percent, us in opened["curve"]],
        "lag_us": opened["lag_us"]["99"],
        "cpu_us_at_rate": used / opened["requests"] * 1e6,
    }


def _load(
    bench: Bench,
    pool: Sequence[Running],
    process: Running,
    mode: str,
    place: Place,
    **options: object,
) -> tuple[Sample, float]:
    options |= {"connections": CONNECTIONS, "warm_up": WARM_UP}
    with Generator(bench.generator, place, mode, process.address, **options) as load:
        used, result = cpu_of(process, load, pool)
    return result, used


def _described(programs: Programs) -> dict[str, dict[str, str]]:
    found = versions(programs)
    told = (f"Envoy {found['Envoy']}", found["nginx"], found["HAProxy"])
    return {
        name: {"settings": settings, "version": version}
        for (name, settings), version in zip(SETTINGS.items(), told, strict=True)
    }
