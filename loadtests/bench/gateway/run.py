"""`gateway`: measures all proxies, or all levers, in interleaved rounds, and writes the result."""

import json
import os
import random
import re
import resource
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.gateway import levers, measure, proxies, report, report_levers, shipped
from loadtests.bench.gateway.measure import Bench
from loadtests.bench.gateway.proxies import Programs, Proxy
from loadtests.bench.lanes import builds
from tools import progress, resolve
from tools.errors import ToolError

ROUNDS = 9
SECONDS = 1.5
QUICK = 0.5

TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")

RATE_SHARE = 0.5
"""The rate of the open loop, in what minimal Envoy reaches in the closed one."""

BETWEEN = 4
"""So many levers are measured between two measurements of the shipped configuration."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    rounds: int = ROUNDS
    seconds: float = SECONDS
    only: tuple[str, ...] = ()
    """Only these proxies or levers; empty for all."""
    levers: bool = False
    rate: float = 0.0
    """Requests per second of the open loop; 0 to find it."""
    server: Path | None = None
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the proxy, one for the load and the pool")
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    built = builds.obtain(set(), plan.server, plan.profile)
    programs = Programs(resolve.ensure(TOOLS), built.generator, built.server)
    load_before = os.getloadavg()
    with measure.bench(programs, (cpus[0], cpus[1]), plan.seconds) as bench:
        if not plan.levers:
            bench = replace(bench, rate=plan.rate or _rate(bench))
        results = (_levers if plan.levers else _proxies)(plan, bench)
    record = {
        "plan": {"rounds": plan.rounds, "seconds": plan.seconds, "rate": bench.rate},
        "machine": machine.describe(),
        "versions": _versions(programs),
        "cpus": bench.cpus,
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "results": results,
    }
    name = "bench-gateway-levers" if plan.levers else "bench-gateway"
    text = (report_levers if plan.levers else report).markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / f"{name}.md").write_text(text)
    progress.say("results", f"in {out}/{name}.md and .json")
    return 1 if report.wrong(record) else 0


def _rate(bench: Bench) -> float:
    """A rate that keeps minimal Envoy's CPU about half busy, in whole thousands."""
    proxy = proxies.minimal(bench.endpoints)
    reached = measure.measured(bench, proxy, 0)["closed"]["requests_per_second"]
    return max(1.0, RATE_SHARE * reached // 1000) * 1000


def _proxies(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by proxy. Each round has another order, so that none is always the first."""
    rendered = shipped.configuration(bench.programs.tools, bench.endpoints)
    everything = proxies.compared(rendered, bench.endpoints)
    chosen = [proxy for proxy in everything if not plan.only or proxy.name in plan.only]
    if not chosen:
        raise ToolError(f"--only: there are {', '.join(proxy.name for proxy in everything)}")
    samples: dict[str, list[dict]] = {proxy.name: [] for proxy in chosen}
    for number in range(1, plan.rounds + 1):
        for proxy in random.Random(number).sample(chosen, len(chosen)):
            samples[proxy.name].append(_sample(bench, proxy, number, plan.rounds))
    return samples


def _levers(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by lever, each with those of the shipped configuration just before and after."""
    rendered = shipped.configuration(bench.programs.tools, bench.endpoints)
    base = proxies.envoy("shipped", rendered)
    chosen = [lever for lever in levers.LEVERS if not plan.only or lever.name in plan.only]
    if not chosen:
        raise ToolError(f"--only: there are {', '.join(lever.name for lever in levers.LEVERS)}")
    changed = [
        proxy
        for lever in chosen
        # What the chart has already is not measured; `nothing` is, for the noise.
        if (proxy := lever.applied(rendered)).differs_from(base) or lever is levers.NOTHING
    ]
    samples: dict[str, list[dict]] = {proxy.name: [] for proxy in changed}
    for number in range(1, plan.rounds + 1):
        before = _sample(bench, base, number, plan.rounds)
        for group in _groups(random.Random(number).sample(changed, len(changed))):
            found = {proxy.name: _sample(bench, proxy, number, plan.rounds) for proxy in group}
            after = _sample(bench, base, number, plan.rounds)
            for name, sample in found.items():
                samples[name].append({**sample, "base": [before, after]})
            before = after
    return samples


def _groups(changed: list[Proxy]) -> Iterator[list[Proxy]]:
    for first in range(0, len(changed), BETWEEN):
        yield changed[first : first + BETWEEN]


def _sample(bench: Bench, proxy: Proxy, number: int, rounds: int) -> dict:
    sample = measure.measured(bench, proxy, number)
    progress.say(f"{number}/{rounds}", f"{proxy.name}: {report.brief(sample)}")
    return sample


def _versions(programs: Programs) -> dict[str, str]:
    """What each program says of itself."""
    haproxy = programs.tools["haproxy"]
    library = {**os.environ, "LD_LIBRARY_PATH": proxies.libraries(haproxy)}
    asked = {
        "Envoy": ([programs.tools["envoy"], "--version"], None),
        "nginx": ([programs.tools["nginx"], "-v"], None),
        "HAProxy": ([haproxy, "-v"], library),
    }
    return {name: _version(argv, environment) for name, (argv, environment) in asked.items()}


def _version(argv: list, environment: dict[str, str] | None) -> str:
    result = subprocess.run(argv, capture_output=True, text=True, env=environment, check=True)
    found = re.search(
        r"(?<![\w./-])\d+\.\d+\.\d+|(?<=/)\d+\.\d+\.\d+", result.stdout + result.stderr
    )
    return found[0] if found else "unknown"
