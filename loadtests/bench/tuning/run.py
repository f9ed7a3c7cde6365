"""`tuning`: runs both arms in interleaved rounds, and writes the result."""

import json
import os
import resource
from dataclasses import asdict, dataclass, field
from pathlib import Path

from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.tuning import report
from loadtests.bench.tuning.arms import SHOWN, Arm, arms
from loadtests.bench.tuning.measure import CASES, Load, Programs, sample
from loadtests.bench.tuning.networks import joined
from tools import progress, resolve, table, versions
from tools.errors import ToolError

ROUNDS = 9
QUICK = Load(requests=300, connections=100)


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    rounds: int = ROUNDS
    load: Load = field(default_factory=Load)
    tuning: str = "web-10k"
    """The node tuner's profile."""
    server: Path | None = None
    """Another build of corelane-server."""
    tuner: Path | None = None
    """Another build of node-tuner."""
    profile: str = "release"


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes; 1 when a request got no right answer."""
    record = measure(plan)
    text = report.markdown(record)
    print(text)
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench-tuning.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "bench-tuning.md").write_text(text)
    progress.say("results", f"in {out}/bench-tuning.md and .json")
    return 1 if report.wrong(record) else 0


def measure(plan: Plan) -> dict:
    """Everything that the report tells."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))[:2]
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the server and one for the clients")
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    programs, compared = _programs(plan), arms(_tuner(plan), plan.tuning)
    results = {case: {arm.name: [] for arm in compared} for case in CASES}
    for number in range(1, plan.rounds + 1):
        for case in CASES:
            for arm in compared if number % 2 else compared[::-1]:
                found = sample(programs, plan.load, arm, case, cpus)
                results[case][arm.name].append(found)
                text = f"{case}, {arm.name}: {report.brief(found)}"
                progress.say(f"tuning {number}/{plan.rounds}", text)
    return {
        "plan": {"rounds": plan.rounds},
        "load": asdict(plan.load),
        "machine": machine.describe(),
        "versions": _versions(programs),
        "profile": plan.profile,
        "cpus": cpus,
        "arms": [_shown(arm) for arm in compared],
        "results": results,
    }


def _shown(arm: Arm) -> dict:
    """An arm as the report shows it: of the defaults, what the kernel has in a new namespace."""
    if arm.server:
        return asdict(arm)
    with joined() as pair:
        sides = {side: getattr(pair, side) for side in ("server", "client")}
        return {
            **asdict(arm),
            **{side: {name: sides[side].read(name) for name in SHOWN} for side in sides},
        }


def _programs(plan: Plan) -> Programs:
    server = plan.server
    if server is None:
        folder = builds.build(builds.SERVICES, ["corelane-server"], plan.profile)
        server = folder / "corelane-server"
    peers = builds.build(builds.BENCH, ["load-generator"], plan.profile)
    return Programs(server, resolve.ensure(["ab"])["ab"], peers / "load-generator")


def _tuner(plan: Plan) -> Path:
    """Only prints what it knows, so it need not be optimised."""
    if plan.tuner:
        return plan.tuner
    return builds.build(builds.SERVICES, ["node-tuner"], "dev") / "node-tuner"


def _versions(programs: Programs) -> dict[str, str]:
    ours = builds.locked(builds.SERVICES)
    return {
        **{name: ours[name] for name in ("corelane", "node-tuner", "hyper", "tokio")},
        "ab": versions.remembered(programs.ab, table.find("ab")),
    }
