"""Measures one proxy in one round: in a closed loop, and at a rate that is the same for all."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench.free_ports import free_ports
from loadtests.bench.gateway.proxies import Programs, Proxy
from loadtests.bench.gateway.shipped import Endpoint
from loadtests.bench.lanes.load import Generator, Place
from loadtests.bench.lanes.rows import cpu_of
from loadtests.bench.lanes.servers import HOST, Running, running

CONNECTIONS = 64
REPLICAS = 2
OTHERS = ("others_cores", "stolen_cores")
_TICKS = os.sysconf("SC_CLK_TCK")

Sample = dict


@dataclass(frozen=True)
class Replica:
    """One server of the pool."""

    name: str
    admin_port: int

    def argv(self, programs: Programs, address: str, _folder: Path) -> list[str]:
        """How it is started. All replicas share a CPU, so none pins its lane."""
        argv = [str(programs.server), "--listen", address, "--lanes", "1", "--pin", "off"]
        argv += ["--admin.listen", f"{HOST}:{self.admin_port}"]
        return [*argv, "--replica", self.name, "--log.level", "warn"]


@dataclass(frozen=True)
class Bench:
    """What every measurement uses."""

    programs: Programs
    cpus: tuple[int, int]
    """The proxy's, and that of the generator and the pool."""
    seconds: float
    """Length of each of the two measured parts."""
    pool: Sequence[Running]
    endpoints: Sequence[Endpoint]
    rate: float = 0.0
    """Requests per second of the open loop; 0 leaves it out."""


@contextlib.contextmanager
def bench(programs: Programs, cpus: tuple[int, int], seconds: float) -> Iterator[Bench]:
    """Starts the pool, which is the same for all proxies and all rounds."""
    with contextlib.ExitStack() as stack:
        pool, endpoints = [], []
        for number in range(REPLICAS):
            replica = Replica(f"bench-{number}", free_ports())
            server = stack.enter_context(running(replica, programs, [cpus[1]]))
            pool.append(server)
            port = int(server.address.rpartition(":")[2])
            endpoints.append(Endpoint(port, replica.admin_port))
        yield Bench(programs, cpus, seconds, pool, endpoints)


def measured(bench: Bench, proxy: Proxy, seed: int) -> Sample:
    """Starts the proxy alone on its CPU and measures both loops."""
    with running(proxy, bench.programs, [bench.cpus[0]]) as process:
        sample = {"closed": _load(bench, process, "closed", Place([bench.cpus[1]]))}
        if bench.rate:
            # Ahead of the pool on the same CPU, or it could not send when a request is due.
            place = Place([bench.cpus[1]], first=True)
            sample["open"] = _load(bench, process, "open", place, rate=bench.rate, seed=seed)
        return sample


def paired(bench: Bench, base: Proxy, changed: Proxy, pairs: int) -> list[list[Sample]]:
    """Two proxies on one CPU that are asked in turns, shortly: what disturbs meets both."""
    place = Place([bench.cpus[1]])
    with (
        running(base, bench.programs, [bench.cpus[0]]) as first,
        running(changed, bench.programs, [bench.cpus[0]]) as second,
    ):
        for process in (first, second):
            _load(bench, process, "closed", place)
        found = []
        for number in range(pairs):
            order = (first, second) if number % 2 else (second, first)
            parts = {id(process): _load(bench, process, "closed", place) for process in order}
            found.append([_needed(parts[id(process)]) for process in (first, second)])
        return found


def _needed(part: Sample) -> Sample:
    """What a report reads of one of very many parts."""
    return {name: part[name] for name in ("cpu_us", "requests", "wrong", *OTHERS)}


def _load(bench: Bench, process: Running, mode: str, place: Place, **options: float) -> Sample:
    options |= {"connections": CONNECTIONS, "seconds": bench.seconds, "warm_up": bench.seconds / 3}
    program = bench.programs.generator
    with Generator(program, place, mode, process.address, **options) as load:
        before = Counters.of(process)
        used, result = cpu_of(process, load, bench.pool)
        after = Counters.of(process)
    requests = result["requests"]
    return {
        **result,
        "cpu_us": used / requests * 1e6,
        "busy": used / result["seconds"],
        "user_share": after.user_share_since(before),
        "sleeps": (after.sleeps - before.sleeps) / requests,
        "generator_us": result["generator_cpu_seconds"] / requests * 1e6,
    }


@dataclass(frozen=True)
class Counters:
    """What the kernel counts of a proxy's processes, all threads together."""

    user: float
    system: float
    sleeps: int
    """How often a thread waited (voluntary_ctxt_switches of proc_pid_status(5))."""

    @classmethod
    def of(cls, process: Running) -> "Counters":
        """Reads them."""
        user = system = sleeps = 0
        for pid in process.pids:
            # After the name, which may hold anything, comes the third field (proc_pid_stat(5)).
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            user, system = user + int(fields[11]), system + int(fields[12])
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    sleeps += _waits((task / "status").read_text())
        return cls(user / _TICKS, system / _TICKS, sleeps)

    def user_share_since(self, before: "Counters") -> float:
        """The part of the CPU time that was not the kernel's."""
        user, system = self.user - before.user, self.system - before.system
        return user / (user + system) if user + system else 0.0


def _waits(status: str) -> int:
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["voluntary_ctxt_switches"])
