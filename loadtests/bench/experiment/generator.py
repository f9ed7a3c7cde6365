"""Runs the load generator against one server: results and CPU time."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.servers import Replica, Running, running
from tools.errors import ToolError

PRIORITY = ["chrt", "--fifo", "1"]
"""Command prefix that gives priority over every ordinary thread (sched(7))."""


@dataclass(frozen=True)
class Place:
    cpus: list[int]
    first: bool = False
    """Priority over every other process, if the system allows it. This is for an open loop, which
    leaves most of the CPU idle. In a closed loop, the kernel would throttle the generator to let
    others run (sched(7), sched_rt_runtime_us).
    """

    def argv(self) -> list[str]:
        pinned = ["taskset", "-c", ",".join(map(str, self.cpus))]
        return [*pinned, *PRIORITY] if self.first and may_be_first() else pinned


def may_be_first() -> bool:
    if not shutil.which("chrt"):
        return False
    return subprocess.run([*PRIORITY, "true"], capture_output=True, check=False).returncode == 0


class Generator:
    """A generator run. The context is entered once the generator is ready."""

    def __init__(self, program: Path, place: Place, mode: str, to: str, **options: object) -> None:
        flags = [_flag(name, value) for name, value in options.items()]
        self.argv = [*place.argv(), str(program), mode, "--to", to, *flags]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if self._line() != "ready":
                raise ToolError(f"{self.argv} did not say that it is ready")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def measure(self, part: str = "") -> dict:
        """Runs the measured part and returns its result. The connections stay open until the end.

        Some modes take several parts, one per line.
        """
        self.tell(part)
        return self.answer()

    def tell(self, part: str) -> None:
        """Starts a part, during which the caller may do something else."""
        self._process.stdin.write(f"{part}\n")
        self._process.stdin.flush()

    def answer(self) -> dict:
        return self._line()

    def go_first(self) -> None:
        """Gives the generator priority over every other process from now on, like a place with
        `first`.
        """
        if may_be_first():
            os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(1))

    def _line(self) -> object:
        line = self._process.stdout.readline()
        if not line:
            error = self._process.stderr.read().strip()
            raise ToolError(f"the load generator gave up: {error}\n  {' '.join(self.argv)}")
        return json.loads(line)

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _flag(name: str, value: object) -> str:
    """True means an option without a value."""
    flag = f"--{name.replace('_', '-')}"
    return flag if value is True else f"{flag}={value}"


CONNECTIONS = 64
SLOW_SHARE = 0.1

_NOTHING = nullcontext()

Figures = dict


def measured(
    process: Running,
    program: Path,
    place: Place,
    mode: str,
    *,
    beside: Sequence[Running] = (),
    during: AbstractContextManager = _NOTHING,
    **options: object,
) -> Figures:
    """Runs a load of the generator `program`, which connects and warms up first; CPU time per
    request is in µs.

    `during` is open during the measurement.
    """
    options = {"connections": CONNECTIONS, **options}
    with Generator(program, place, mode, process.address, **options) as load, during:
        used, result = cpu_of(process, load, beside)
    requests = result["requests"]
    return {
        **result,
        "cpu_us": used / requests * 1e6,
        "beside_us": result["beside_cpu_seconds"] / requests * 1e6,
        "busy": used / result["seconds"],
    }


def cpu_of(
    process: Running, load: Generator, beside: Sequence[Running] = (), part: str = ""
) -> tuple[float, Figures]:
    """CPU time for the measured requests; no request is in flight before or after. Also measures
    the rest of the machine, without the servers `beside` it.
    """
    watch, known = cpu.Watch(process.cpu_seconds), _sum(beside)
    result = load.measure(part)
    used = _sum(beside) - known
    seen = watch.seen(used + result["generator_cpu_seconds"])
    return seen.pop("cpu_seconds"), {**result, **seen, "beside_cpu_seconds": used}


def _sum(servers: Sequence[Running]) -> float:
    return sum(server.cpu_seconds() for server in servers)


@dataclass(frozen=True)
class Work:
    ops_per_ms: float
    hello_us: float

    def ops(self, milliseconds: float) -> int:
        """Iterations that take this long without other load."""
        return round(self.ops_per_ms * milliseconds)


def calibrate(programs: Programs, cpus: Sequence[int], seconds: float = 1.0) -> Work:
    """Measures the cost of the two requests with corelane-server on a dedicated CPU."""
    ops, place = 1_000_000, Place([cpus[1]])
    loads = {"hello": {}, "work": {"connections": 1, "ops": ops}}
    with running(Replica(), programs, [cpus[0]]) as server:
        cost = {
            name: measured(
                server,
                programs.generator,
                place,
                "closed",
                seconds=seconds,
                warm_up=0.3 * seconds,
                **load,
            )["cpu_us"]
            for name, load in loads.items()
        }
    return Work(ops_per_ms=ops / cost["work"] * 1e3, hello_us=cost["hello"])
