"""One measured load on one server: the generator's figures and the server's CPU time."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.servers import Running, Server, running

CONNECTIONS = 64
SLOW_MS = 7.0
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
    """A load of the generator `program`, connected and warmed up before; CPU time per request in µs.

    `during` is open while it is measured.
    """
    options = {"connections": CONNECTIONS, **options}
    with Generator(program, place, mode, process.address, **options) as load, during:
        used, result = cpu_of(process, load, beside)
    requests = result["requests"]
    return {
        **result,
        "cpu_us": used / requests * 1e6,
        "busy": used / result["seconds"],
    }


def cpu_of(
    process: Running, load: Generator, beside: Sequence[Running] = (), part: str = ""
) -> tuple[float, Figures]:
    """The server's CPU time for the measured requests, none of which is in flight before or
    after; and what the rest of the machine did meanwhile, without the servers `beside` it."""
    watch, known = cpu.Watch(process.cpu_seconds), _sum(beside)
    result = load.measure(part)
    seen = watch.seen(_sum(beside) - known + result["generator_cpu_seconds"])
    return seen.pop("cpu_seconds"), {**result, **seen}


def _sum(servers: Sequence[Running]) -> float:
    return sum(server.cpu_seconds() for server in servers)


@dataclass(frozen=True)
class Work:
    """What `/work` and `/hello` cost on this machine, found once for a run."""

    ops_per_ms: float
    hello_us: float

    def ops(self, milliseconds: float) -> int:
        """Iterations that take this long alone."""
        return round(self.ops_per_ms * milliseconds)


def calibrate(programs: Programs, cpus: Sequence[int], seconds: float = 1.0) -> Work:
    """Finds what the two requests cost, with corelane-server alone on the first CPU."""
    ops, place = 1_000_000, Place([cpus[1]])
    loads = {"hello": {}, "work": {"connections": 1, "ops": ops}}
    with running(Server(), programs, [cpus[0]]) as server:
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
