"""`direct`: one replica directly, and the gateway over all replicas, under ab."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from loadtests.bench import ab, cpu, networks
from loadtests.bench.direct import report
from loadtests.bench.direct.report import MODES, SIDES
from loadtests.bench.experiment.page import Page
from loadtests.bench.experiment.plan import Experiment, Plan, Row, Stand, Task
from loadtests.bench.experiment.record import Record
from local import ports, processes, settings, supervisor, topology
from local.settings import REPOSITORY
from local.topology import HOST, Topology
from tools import resolve, table, versions
from tools.errors import ToolError

REQUESTS = 50_000
CONCURRENCY = 100
WARM_UP = 2_000


@dataclass
class DirectStand(Stand):
    """A running platform, and ab."""

    program: Path | None = None
    run: Path | None = None
    running: Topology | None = None

    def port(self, side: str) -> int:
        """Where a side listens."""
        direct = self.running.replicas[0].port
        return self.running.gateway_port if side == "gateway" else direct

    def ask(self, task: Task, requests: int) -> ab.Result:
        """One run of ab."""
        return ab.run(
            self.program,
            f"http://{HOST}:{self.port(task['side'])}{self.plan.options.path}",
            requests=requests,
            concurrency=CONCURRENCY,
            keep_alive=task["mode"] == "keep-alive",
        )


class Direct(Experiment):
    """Both sides alternately, with a connection for each request and with connections that are kept."""

    name = "direct"
    title = "One replica directly, and the gateway over all replicas"
    help = "one replica directly against the gateway over all, under ab"
    rounds = 5
    quick = 0.1
    cpus = 1

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--path", type=_path, default="/hello", help="default: /hello")

    def tasks(self, plan: Plan) -> list[Task]:
        return [{"mode": mode, "side": side} for mode in MODES for side in SIDES]

    @contextmanager
    def stand(self, plan: Plan, tasks: Sequence[Task]) -> Iterator[DirectStand]:
        program = resolve.ensure(["ab"])["ab"]
        with up(plan.profile) as run:
            running = topology.read(run)
            stand = DirectStand(plan, (), program=program, run=run, running=running)
            envoy = Path(f"/proc/{pids_of(run)['gateway']}/exe").readlink()
            found = {"envoy": envoy, "ab": program}
            stand.versions = {
                name: versions.remembered(place, table.find(name)) for name, place in found.items()
            }
            stand.facts = {
                "requests": round(REQUESTS * plan.scale),
                "concurrency": CONCURRENCY,
                "replicas": len(running.replicas),
                "pinned": running.pinned,
                "direct": running.replicas[0].name,
            }
            for task in tasks:
                _warm_up(stand, task)
            yield stand

    def measure(self, stand: DirectStand, task: Task, number: int) -> Row:
        ab.settle(stand.port(task["side"]))
        pids = pids_of(stand.run)
        replicas = [pids[replica.name] for replica in stand.running.replicas]
        parts = {
            "replicas": lambda: sum(map(cpu.seconds, replicas)),
            "gateway": lambda: cpu.seconds(pids["gateway"]),
            "ab": cpu.children,
        }
        before, kernel = {name: used() for name, used in parts.items()}, networks.counters()
        watch = cpu.Watch(lambda: sum(used() for used in parts.values()))
        result = stand.ask(task, stand.facts["requests"])
        seen = watch.seen()
        used = {name: now() - before[name] for name, now in parts.items()}
        return {
            **asdict(result),
            **seen,
            "requests": result.complete,
            "wrong": result.wrong,
            "cpu_us": {name: 1e6 * seconds / result.complete for name, seconds in used.items()},
            "busy": {name: seconds / seen["wall"] for name, seconds in used.items()},
            "kernel": {name: now - kernel[name] for name, now in networks.counters().items()},
        }

    def brief(self, row: Row) -> str:
        return f"{row['requests_per_second']:,.0f} requests/s, {row['wrong']} failed"

    def page(self, record: Record) -> Page:
        return report.page(self.title, record)


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text}: a path begins with /")
    return text


def _warm_up(stand: DirectStand, task: Task) -> None:
    """Requests that are not measured; what ab cannot measure ends the run here."""
    result = stand.ask(task, WARM_UP)
    url = f"http://{HOST}:{stand.port(task['side'])}{stand.plan.options.path}"
    if result.wrong:
        raise ToolError(
            f"{url}: {result.wrong} of {WARM_UP} requests failed ({result.non_2xx} with a status "
            f"other than 2xx). ab speaks HTTP/1.0: look at curl --http1.0 -i {url}"
        )
    if task["mode"] == "keep-alive" and not result.kept_alive:
        raise ToolError(f"{url} closes connections although ab requests keep-alive")


OWN = f"bench-{os.getpid()}"
FIRST_PORTS = range(20000, 30000, 500)
"""Below the ports that clients are given (ip_local_port_range)."""


@contextmanager
def up(profile: str) -> Iterator[Path]:
    """The run folder of a running instance; what is started here is stopped at the end."""
    run = settings.run_folder()
    if topology.read(run) is not None and processes.find(run):
        yield run
        return
    run = REPOSITORY / ".run" / OWN
    environment = {**os.environ, "PROFILE": profile, "INSTANCE": OWN, **_free_ports()}
    try:
        _local("up", environment)
        yield run
    finally:
        _local("down", environment)
        shutil.rmtree(run, ignore_errors=True)


def _local(command: str, environment: dict[str, str]) -> None:
    argv = [sys.executable, str(REPOSITORY / "hack" / "local"), command]
    result = subprocess.run(argv, env=environment, stdout=subprocess.DEVNULL, check=False)
    if result.returncode != 0:
        raise ToolError(f"hack/local {command} of instance {OWN} failed; it says why above")


def _free_ports() -> dict[str, str]:
    """Ports for the instance, as variables of hack/local."""
    chosen = settings.load()
    for first in FIRST_PORTS:
        # 100 apart, as the defaults are: replicas count up from theirs.
        numbers = {name: first + 100 * index for index, name in enumerate(settings.VARIABLES)}
        try:
            ports.require_free(topology.plan(replace(chosen, ports=numbers)))
        except ToolError:
            continue
        return {name: str(number) for name, number in numbers.items()}
    raise ToolError(f"no free ports from {FIRST_PORTS.start} to {FIRST_PORTS.stop}")


def pids_of(run: Path) -> dict[str, int]:
    """The processes of the instance by name."""
    return {name: info["pid"] for name, info in supervisor.states(run).items()}
