"""`compare-direct`: one replica directly against the gateway over all of them, under ab."""

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtests.bench import ab, compare_report, cpu, instance, machine, ports
from local import topology
from local.topology import HOST, Topology
from tools import progress, resolve, table, versions
from tools.errors import ToolError

REQUESTS = 50_000
CONCURRENCY = 100
WARM_UP = 2_000
SIDES = ("direct", "gateway")
MODES = {"close": False, "keep-alive": True}
"""Whether ab reuses connections, by the name of the pair of rows."""


@dataclass(frozen=True)
class Plan:
    """What ab does, and how often."""

    path: str
    requests: int
    concurrency: int
    rounds: int


def main(plan: Plan, out: Path) -> int:
    """Measures, shows and writes the result; 1 when any request got no right answer."""
    program = resolve.ensure(["ab"])["ab"]
    with instance.up() as run:
        record = _measure(plan, program, run)
    report = compare_report.markdown(record)
    print(report)
    out.mkdir(parents=True, exist_ok=True)
    (out / "compare-direct.json").write_text(json.dumps(record, indent=1) + "\n")
    (out / "compare-direct.md").write_text(report)
    progress.say("results", f"in {out}/compare-direct.md and .json")
    return 1 if compare_report.wrong(record) else 0


def _measure(plan: Plan, program: Path, run: Path) -> dict:
    running = topology.read(run)
    load_before = os.getloadavg()
    _warm_up(plan, program, running)
    results = {mode: {side: [] for side in SIDES} for mode in MODES}
    for number in range(1, plan.rounds + 1):
        for mode in MODES:
            for side in SIDES:
                sample = _round(plan, program, run, running, mode, side)
                results[mode][side].append(sample)
                rate, wrong = sample["requests_per_second"], sample["wrong"]
                text = f"{mode}, {side}: {rate:.0f} requests/s, {wrong} failed"
                progress.say(f"round {number}/{plan.rounds}", text)
    return {
        "plan": asdict(plan),
        "machine": machine.describe(),
        "versions": _versions(program, run),
        "load_average": {"before": load_before, "after": os.getloadavg()},
        "replicas": len(running.replicas),
        "pinned": running.pinned,
        "direct": running.replicas[0].name,
        "results": results,
    }


def _warm_up(plan: Plan, program: Path, running: Topology) -> None:
    """Unmeasured requests; what cannot be measured is refused here."""
    for keep_alive in MODES.values():
        for side in SIDES:
            url = _url(plan, running, side)
            result = ab.run(
                program,
                url,
                requests=WARM_UP,
                concurrency=plan.concurrency,
                keep_alive=keep_alive,
            )
            if result.wrong:
                raise ToolError(
                    f"{url}: {result.wrong} of {WARM_UP} requests failed "
                    f"({result.non_2xx} with a status other than 2xx). ab speaks HTTP/1.0: "
                    f"look at curl --http1.0 -i {url}"
                )
            if keep_alive and not result.kept_alive:
                raise ToolError(f"{url} closes connections although ab asks for keep-alive")


def _round(
    plan: Plan, program: Path, run: Path, running: Topology, mode: str, side: str
) -> dict[str, object]:
    """One run of ab, and what it cost."""
    ports.settle(_port(running, side))
    pids = instance.pids(run)
    replicas = [pids[replica.name] for replica in running.replicas]
    before = _Usage.now(replicas, pids["gateway"])
    result = ab.run(
        program,
        _url(plan, running, side),
        requests=plan.requests,
        concurrency=plan.concurrency,
        keep_alive=MODES[mode],
    )
    after = _Usage.now(replicas, pids["gateway"])
    return {**asdict(result), "wrong": result.wrong, **after.since(before, result.complete)}


@dataclass(frozen=True)
class _Usage:
    """Counters that are read before and after a round."""

    wall: float
    cpu: dict[str, float]
    machine: cpu.Machine
    kernel: dict[str, int]

    @classmethod
    def now(cls, replicas: list[int], gateway: int) -> "_Usage":
        used = {
            "replicas": sum(map(cpu.seconds, replicas)),
            "gateway": cpu.seconds(gateway),
            "ab": cpu.children(),
        }
        return cls(time.monotonic(), used, cpu.Machine.now(), ports.counters())

    def since(self, before: "_Usage", requests: int) -> dict[str, dict[str, float]]:
        """CPU per request, how many cores each part kept busy, and what went wrong in TCP."""
        wall = self.wall - before.wall
        used = {name: self.cpu[name] - before.cpu[name] for name in self.cpu}
        others = self.machine.busy - before.machine.busy - sum(used.values())
        cores = {**used, "others": max(0.0, others)}
        cores["stolen"] = self.machine.stolen - before.machine.stolen
        return {
            "cpu_us_per_request": {n: round(used[n] / requests * 1e6, 3) for n in used},
            "cores_busy": {name: round(seconds / wall, 4) for name, seconds in cores.items()},
            "kernel": {name: self.kernel[name] - before.kernel[name] for name in self.kernel},
        }


def _port(running: Topology, side: str) -> int:
    return running.gateway_port if side == "gateway" else running.replicas[0].port


def _url(plan: Plan, running: Topology, side: str) -> str:
    return f"http://{HOST}:{_port(running, side)}{plan.path}"


def _versions(program: Path, run: Path) -> dict[str, str]:
    envoy = Path(f"/proc/{instance.pids(run)['gateway']}/exe").readlink()
    return {
        "envoy": versions.remembered(envoy, table.find("envoy")),
        "ab": versions.remembered(program, table.find("ab")),
    }
