"""`files`: measures all file servers in interleaved rounds, and writes the result."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.measurement import CONNECTIONS, cpu_of
from loadtests.bench.experiment.servers import running
from loadtests.bench.files import report
from loadtests.bench.files.servers import FILES, NAMES, STATIC, FileServer, Programs
from tools import progress, resolve, table, versions
from tools.errors import ToolError

ROUNDS = 9
SECONDS = 4.0
QUICK = 1.0


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    rounds: int = ROUNDS
    seconds: float = SECONDS
    only: tuple[str, ...] = ()
    """Some servers only; empty for all."""
    server: Path | None = None
    """Another build of corelane-server."""
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the server and one for the load")
    record = measure(plan, cpus[0], cpus[1])
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-files.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-files.md").write_text(text)
    progress.say("results", f"in {out}/bench-files.md and .json")
    return 1 if report.wrong(record) else 0


def measure(plan: Plan, cpu: int, other: int) -> dict:
    """Everything that the report tells."""
    programs = _programs(plan)
    names = plan.only or NAMES
    results = {title: {name: [] for name in names} for title in FILES}
    for number in range(1, plan.rounds + 1):
        for name in names:
            with running(FileServer(name), programs, [cpu]) as process:
                for title, file in FILES.items():
                    sample = _sample(plan, programs, process, file, other)
                    results[title][name].append(sample)
                    text = f"{name}, {title}: {report.brief(sample)}"
                    progress.say(f"files {number}/{plan.rounds}", text)
    return {
        "plan": {"rounds": plan.rounds, "seconds": plan.seconds, "connections": CONNECTIONS},
        "machine": machine.describe(),
        "versions": _versions(programs),
        "profile": plan.profile,
        "cpus": (cpu, other),
        "results": results,
    }


def _sample(plan: Plan, programs: Programs, process: object, file: str, other: int) -> dict:
    options = {
        "connections": CONNECTIONS,
        "seconds": plan.seconds,
        "warm_up": min(1.0, plan.seconds / 2),
        "page": f"/static/{'' if file == 'index.html' else file}",
        "file": STATIC / file,
    }
    place = Place([other])
    with Generator(programs.generator, place, "closed", process.address, **options) as load:
        used, result = cpu_of(process, load)
    requests = result["requests"]
    return {
        **result,
        "cpu_us": used / requests * 1e6,
        "generator_us": result["generator_cpu_seconds"] / requests * 1e6,
        "busy": used / result["seconds"],
    }


def _programs(plan: Plan) -> Programs:
    server = plan.server
    if server is None:
        folder = builds.build(builds.SERVICES, ["corelane-server"], plan.profile)
        server = folder / "corelane-server"
    packages = ["load-generator"]
    if {"tower-http", "actix-files"} & set(plan.only or NAMES):
        packages.append("file-servers")
    return Programs(
        server=server,
        nginx=resolve.ensure(["nginx"])["nginx"],
        peers=builds.build(builds.BENCH, packages, plan.profile),
    )


def _versions(programs: Programs) -> dict[str, str]:
    ours, theirs = builds.locked(builds.SERVICES), builds.locked(builds.BENCH)
    found = {"corelane": ours["corelane"]}
    found |= {f"{name} in corelane": ours[name] for name in ("hyper", "tokio")}
    found |= {name: theirs[name] for name in ("actix-files", "actix-web", "tower-http", "hyper")}
    found["nginx"] = versions.remembered(programs.nginx, table.find("nginx"))
    return found
