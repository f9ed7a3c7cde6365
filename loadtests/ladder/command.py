"""The command `ladder` of `python3 loadtests`: builds, measures in a network of its own, reports."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from loadtests import record
from loadtests.bench import machine
from loadtests.bench.experiment import builds
from loadtests.bench.gateway.pool import TOOLS
from loadtests.bench.options import RESULTS, add_builds, positive, some_of
from loadtests.ladder import network, report, runs, stack
from loadtests.ladder.plan import PARTS, PATHS, QUICK, Job, Plan, Programs
from loadtests.ladder.summary import summarized, wrong
from loadtests.report import keep
from loadtests.usage import UsageError
from tools import progress, resolve
from tools.errors import ToolError

NAME = "ladder"
THRESHOLD = 99


def add(commands: argparse._SubParsersAction) -> None:
    """Adds it to the commands."""
    about = "holds ever more connections, idle and slow ones, and asks 20,000 times at once"
    parser = commands.add_parser(
        NAME,
        help=about,
        description=f"{about.capitalize()}: replicas of corelane-server directly, and through gateways. "
        "As root in a network namespace of its own. Builds what it needs.",
    )
    parser.add_argument("--quick", action="store_true", help="few connections, for a first look")
    parser.add_argument("--rounds", type=positive, metavar="N", help=f"default: {Plan.rounds}")
    parser.add_argument("--rungs", type=_rungs, metavar="N,N", help=f"default: {_text(Plan.rungs)}")
    parser.add_argument("--only", type=some_of(PARTS), metavar="PARTS", help=f"of {_text(PARTS)}")
    parser.add_argument("--paths", type=some_of(PATHS), metavar="PATHS", help=f"of {_text(PATHS)}")
    parser.add_argument("--rate", type=positive, metavar="N", help="live requests a second")
    parser.add_argument("--seed", type=positive, metavar="N", help="of their arrivals")
    parser.add_argument(
        "--out", type=Path, default=record.OUT, metavar="FOLDER", help="default: loadtests/out"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FOLDER",
        help="where ladder.md and .json go too; default: docs/results for everything in all rounds",
    )
    add_builds(parser)
    parser.set_defaults(run=_run)


def _text(values: tuple) -> str:
    return ",".join(map(str, values))


def _rungs(text: str) -> tuple[int, ...]:
    return tuple(sorted({positive(part) for part in text.split(",")}))


def _run(options: argparse.Namespace) -> int:
    plan = QUICK if options.quick else Plan()
    chosen = {"rounds": options.rounds, "rungs": options.rungs, "parts": options.only}
    chosen |= {"paths": options.paths, "rate": options.rate, "seed": options.seed}
    plan = replace(plan, **{name: value for name, value in chosen.items() if value is not None})
    started, load = datetime.now(UTC), list(os.getloadavg())
    result = measured(_job(plan, options))
    cells = summarized(result["cells"])
    failed = wrong(cells)
    status = THRESHOLD if failed else 0
    about = {
        "tool_version": builds.locked(builds.BENCH)["load-generator"],
        "passed": not failed,
        "exit_code": status,
        "failed_thresholds": [f"{failed:,} failed"] if failed else [],
        "started": started.isoformat(timespec="seconds"),
        "seconds": (datetime.now(UTC) - started).total_seconds(),
        "machine": machine.describe(),
        "load_average_before": load,
    }
    told = {
        "plan": plan.to_dict(),
        "profile": options.profile,
        "own_network": result["own_network"],
        "files": result["files"],
        **{name: about[name] for name in ("machine", "load_average_before", "seconds")},
        "cells": cells,
    }
    folder = record.create_folder(options.out, NAME, started)
    keep(runs.run_of(plan, result, cells, about), folder)
    text = report.markdown(told)
    (folder / "ladder.md").write_text(text)
    (folder / "ladder.json").write_text(json.dumps(told, indent=1) + "\n")
    full = plan == Plan() and options.server is None and options.profile == "release"
    if results := options.results or (RESULTS if full else None):
        results.mkdir(parents=True, exist_ok=True)
        for name in ("ladder.md", "ladder.json"):
            (results / name).write_text((folder / name).read_text())
    print(text)
    print(f"report      {folder / 'report.html'}")
    return status


def _job(plan: Plan, options: argparse.Namespace) -> Job:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    if len(cpus) < 2:
        raise ToolError("two CPUs are needed: one for the servers and one for the load")
    most = network.most_files()
    if plan.slow > most or -(-plan.requests // 2) > most:
        raise UsageError(f"{most:,} open files allow no such run: ulimit -Hn")
    server = options.server and options.server.resolve()
    if server is None:
        server = (
            builds.build(builds.SERVICES, ["corelane-server"], options.profile) / "corelane-server"
        )
    peers = builds.build(builds.BENCH, ["load-generator", "floor"], options.profile)
    tools = resolve.ensure(TOOLS)
    programs = Programs(server, peers / "load-generator", peers / "floor", tools["envoy"])
    return Job(plan, programs, stack.gateway_configuration(tools), cpus)


def measured(job: Job) -> dict:
    """What the measuring process found."""
    if not network.own_network():
        progress.say(NAME, "not root: on the machine's own loopback, with its settings")
    with tempfile.TemporaryDirectory(prefix="ladder-") as name:
        told, found = Path(name) / "job.json", Path(name) / "result.json"
        told.write_text(json.dumps({**job.to_dict(), "outside": network.network()}))
        argv = [sys.executable, str(Path(__file__).parent), str(told), str(found)]
        process = subprocess.Popen(network.enter(argv))
        try:
            status = process.wait()
        except BaseException:
            # It ends what it started.
            process.send_signal(signal.SIGTERM)
            process.wait()
            raise
        if status == 130:
            raise KeyboardInterrupt
        if status != 0:
            raise ToolError("nothing was measured: see above")
        return json.loads(found.read_text())
