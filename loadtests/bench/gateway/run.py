"""`gateway`: measures all proxies, or all levers, in interleaved rounds, and writes the result."""

import json
import os
import random
import re
import resource
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from loadtests.bench import machine
from loadtests.bench.gateway import (
    levers,
    measure,
    profile,
    proxies,
    report,
    report_levers,
    report_profile,
    shipped,
)
from loadtests.bench.gateway.levers import Lever
from loadtests.bench.gateway.measure import Bench
from loadtests.bench.gateway.proxies import Programs, Proxy
from loadtests.bench.lanes import builds
from tools import progress, resolve
from tools.errors import ToolError

TOOLS = ("helm", "supervisord", "envoy", "nginx", "haproxy")

RATE_SHARE = 0.5
"""The rate of the open loop, in what minimal Envoy reaches in the closed one."""

PAIRS = 6
"""So often each lever is compared in a round."""

Named = TypeVar("Named", Proxy, Lever)

QUICK = 3
"""So many times shorter is a quick measurement."""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    what: str = "proxies"
    """A key of KINDS."""
    rounds: int = 0
    """0 for as many as that kind takes."""
    quick: bool = False
    only: tuple[str, ...] = ()
    """Only these proxies or levers; empty for all."""
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
    kind = KINDS[plan.what]
    _check_names(plan, kind)
    plan = replace(plan, rounds=plan.rounds or kind.rounds)
    record = _record(plan, kind, (cpus[0], cpus[1]))
    text = kind.report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{kind.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / f"{kind.name}.md").write_text(text)
    progress.say("results", f"in {out}/{kind.name}.md and .json")
    return 1 if report.wrong(record) else 0


def _check_names(plan: Plan, kind: "Kind") -> None:
    """Before any tool is obtained."""
    if unknown := set(plan.only) - set(kind.names):
        raise ToolError(f"--only: {', '.join(sorted(unknown))}: there are {', '.join(kind.names)}")


def _record(plan: Plan, kind: "Kind", cpus: tuple[int, int]) -> dict:
    """Everything that the report tells."""
    built = builds.obtain(set(), plan.server, plan.profile)
    programs = Programs(resolve.ensure(TOOLS), built.generator, built.server)
    load_before = os.getloadavg()
    seconds = kind.seconds / (QUICK if plan.quick else 1)
    with measure.bench(programs, cpus, seconds) as bench:
        if kind is KINDS["proxies"]:
            bench = replace(bench, rate=plan.rate or _rate(bench))
        results = kind.measure(plan, bench)
    return {
        "plan": {"rounds": plan.rounds, "seconds": seconds, "rate": bench.rate},
        "machine": machine.describe(),
        "versions": versions(programs),
        "cpus": bench.cpus,
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "results": results,
    }


def _rate(bench: Bench) -> float:
    """A rate that keeps minimal Envoy's CPU about half busy, in whole thousands."""
    proxy = proxies.minimal(bench.endpoints)
    reached = measure.measured(bench, proxy, 0)["closed"]["requests_per_second"]
    return max(1.0, RATE_SHARE * reached // 1000) * 1000


def _proxies(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by proxy. Each round has another order, so that none is always the first."""
    rendered = shipped.configuration(bench.programs.tools, bench.endpoints)
    everything = proxies.compared(rendered, bench.endpoints)
    chosen = _chosen(plan, everything)
    samples: dict[str, list[dict]] = {proxy.name: [] for proxy in chosen}
    for number in range(1, plan.rounds + 1):
        for proxy in random.Random(number).sample(chosen, len(chosen)):
            samples[proxy.name].append(_sample(bench, proxy, number, plan.rounds))
    return samples


def _levers(plan: Plan, bench: Bench) -> dict[str, list[dict]]:
    """The samples by lever: pairs of the shipped configuration and the changed one."""
    rendered = shipped.configuration(bench.programs.tools, bench.endpoints)
    base = proxies.envoy("shipped", rendered)
    changed = [
        proxy
        for lever in _chosen(plan, levers.LEVERS)
        # What the chart has already is not measured; `nothing` is, for the noise.
        if (proxy := lever.applied(rendered)).differs_from(base) or lever is levers.NOTHING
    ]
    samples: dict[str, list[dict]] = {proxy.name: [] for proxy in changed}
    for number in range(1, plan.rounds + 1):
        for proxy in random.Random(number).sample(changed, len(changed)):
            sample = {"pairs": measure.paired(bench, base, proxy, PAIRS)}
            samples[proxy.name].append(sample)
            told = f"{proxy.name}: {report_levers.difference(sample):+.1f}%"
            progress.say(f"{number}/{plan.rounds}", told)
    return samples


def _profiles(plan: Plan, bench: Bench) -> dict[str, dict]:
    """Where the time of each proxy goes."""
    rendered = shipped.configuration(bench.programs.tools, bench.endpoints)
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for proxy in _chosen(plan, proxies.compared(rendered, bench.endpoints)):
            if plan.only or proxy.name in profile.PROFILED:
                found[proxy.name] = profile.profiled(bench, proxy, Path(folder))
                progress.say("profile", f"{proxy.name}: {found[proxy.name]['cpu_us']:.1f} µs")
    return found


def _chosen(plan: Plan, everything: Sequence[Named]) -> list[Named]:
    """Those that --only names."""
    return [one for one in everything if not plan.only or one.name in plan.only]


def _sample(bench: Bench, proxy: Proxy, number: int, rounds: int) -> dict:
    sample = measure.measured(bench, proxy, number)
    progress.say(f"{number}/{rounds}", f"{proxy.name}: {report.brief(sample)}")
    return sample


def versions(programs: Programs) -> dict[str, str]:
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


@dataclass(frozen=True)
class Kind:
    """One of the three measurements."""

    name: str
    """Of its files."""
    names: Sequence[str]
    """What --only may name."""
    measure: Callable[[Plan, Bench], dict]
    report: ModuleType
    rounds: int
    seconds: float
    """Length of each measured part."""


LEVERS = tuple(lever.name for lever in levers.LEVERS)

KINDS = {
    "proxies": Kind("bench-gateway", proxies.NAMES, _proxies, report, rounds=9, seconds=1.5),
    "levers": Kind("bench-gateway-levers", LEVERS, _levers, report_levers, rounds=6, seconds=0.15),
    "perf": Kind(
        "bench-gateway-profile", proxies.NAMES, _profiles, report_profile, rounds=1, seconds=6.0
    ),
}
