"""Measures one cell in one round: calibrates at a low load, queries the model, and measures the
knee and the p99.
"""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.capacity.cells import KINDS, USED, USERS, Cell
from loadtests.bench.experiment.generator import Generator, Place, Work
from loadtests.bench.experiment.plan import TestBed
from loadtests.bench.experiment.servers import STATIC, Replica, Running, metrics, running, total
from loadtests.bench.mixed.databases import TOKEN, Sqlite, replica
from stack.http import ask
from stack.postgres_home import ELSEWHERE
from tools.errors import ToolError

LANE_TIME = "corelane_load_table_lane_time_seconds_total"
SERVICE_TIME = "corelane_load_table_service_time_seconds_total"
OBSERVATIONS = "corelane_load_table_observations_total"
BUSY = "corelane_lane_busy_seconds_total"

TOO_MUCH = 1.3
"""Load for measuring the knee, relative to the prediction. Queues are then never empty, so the
throughput is the replica's capacity.
"""

LOW, KNEE = 2.5, 1.5
"""Seconds of the low load and of the load beyond the knee; a cell sets the length of the p99
measurement.
"""

NOTHING = Cell("nothing", "/work of one step", works=((1e-6, 1.0),), low=200_000.0)
"""Requests whose handlers take no time, at a rate beyond any lane's capacity."""


@dataclass
class CapacityBed(TestBed):
    command: Path = Path()
    work: Work | None = None
    outside: float = 0.0


@dataclass(frozen=True)
class Served:
    bed: CapacityBed
    cell: Cell
    server: Running
    admin: str

    def load(self, rate: float, seconds: float, seed: int, warm_up: float = 0.5) -> dict:
        cell, bed = self.cell, self.bed
        place = bed.place(first=True)
        if cell.projects:
            with tempfile.NamedTemporaryFile("w", prefix="bench-capacity-") as token:
                print(TOKEN, file=token, flush=True)
                options = {"users": USERS, "page": STATIC / "4k.txt", "token": token.name}
                part = {"loop": "open", "kinds": KINDS, "rate": rate, "seed": seed}
                with self._generator("users", place, seed=seed, **options) as load:
                    load.measure(json.dumps({**part, "seconds": warm_up}))
                    return self._watched(load, json.dumps({**part, "seconds": seconds}))
        options = {"rate": round(rate, 1), "seconds": seconds, "seed": seed, "warm_up": warm_up}
        options |= {"connections": cell.connections}
        if cell.works:
            works = (f"{bed.work.ops(ms)}={share:g}" for ms, share in cell.works)
            options["works"] = ",".join(works)
        # Each connection stays on one lane, and the model assumes random arrivals at each lane.
        with self._generator("open", place, next="any", **options) as load:
            return self._watched(load, "")

    def _generator(self, mode: str, place: Place, **options: object) -> Generator:
        program = self.bed.programs.generator
        return Generator(program, place, mode, self.server.address, **options)

    def _watched(self, load: Generator, part: str) -> dict:
        """No request is in flight before or after the load."""
        before, watch = metrics(self.admin), cpu.Watch(self.server.cpu_seconds)
        found = load.measure(part)
        seen, after = watch.seen(found["generator_cpu_seconds"]), metrics(self.admin)
        return {**found, **seen, "shown": (before, after)}


@contextlib.contextmanager
def serving(bed: CapacityBed, cell: Cell, folder: Path) -> Iterator[Served]:
    flags = ("--limits.slots", str(cell.slots)) if cell.slots else ()
    flags += ("--faults", "on") if any(cell.wait_ms) else ()
    cpus = list(bed.cpus)
    if cell.projects:
        server = replica(Sqlite(), folder, flags, lanes=cell.lanes)
    else:
        # SQLite's writer has its own thread.
        server, cpus = Replica(flags, lanes=cell.lanes), cpus[: cell.lanes]
    with running(server, bed.programs, cpus) as process:
        if any(cell.wait_ms):
            _delay(server.admin, cell)
        yield Served(bed, cell, process, server.admin)


def _delay(admin: str, cell: Cell) -> None:
    """Makes every `/work` wait, as if for a database."""
    least, more = cell.wait_ms
    latency = {"fixed": f"{least}ms", "jitter": f"{more}ms"}
    fault = {"route": "/work", "share": 1, "latency": latency, "expires_in": "10m"}
    body = json.dumps({"faults": [fault]}).encode()
    reply = ask(f"http://{admin}", "/faults", "PUT", body=body)
    if reply.status >= 300:
        raise ToolError(f"{admin}/faults: {reply.status} {reply.body.decode()}")


def _grown(shown: tuple[str, str], name: str) -> float:
    before, after = shown
    return total(after, name) - total(before, name)


def _mean(name: str, shown: tuple[str, str]) -> float:
    """Mean seconds per request, from a sum's increase."""
    return _grown(shown, name) / max(1.0, _grown(shown, OBSERVATIONS))


def _predicted(bed: CapacityBed, cell: Cell, shown: tuple[str, str], folder: Path) -> dict:
    """Queries the command for the knee, and for latencies at USED times the knee."""
    files = []
    for name, text in zip(("before", "after"), shown, strict=True):
        file = folder / f"{cell.name}-{name}.prom"
        file.write_text(text)
        files += ["--from", str(file)]
    argv = [str(bed.command), "capacity", *files, "--used", f"{USED:.0%}", "--json"]
    argv += ["--outside", f"{1e6 * bed.outside:.2f}us"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def outside(bed: CapacityBed) -> float:
    """Seconds that a request costs outside its handler on a busy lane of this machine.

    A low load cannot separate them from the cost of waking up.
    """
    with serving(bed, NOTHING, Path()) as served:
        seconds = bed.plan.seconds(KNEE, least=0.3) / 2
        shown = served.load(NOTHING.low, seconds, seed=1, warm_up=0.1)["shown"]
    # CPU time excludes what other processes take from a lane, but handler time includes it. Busy
    # time excludes the system call that polls sockets.
    lane = max(_grown(shown, name) for name in ("corelane_lane_cpu_seconds_total", BUSY))
    return max(0.0, lane - _grown(shown, LANE_TIME)) / _grown(shown, OBSERVATIONS)


def measured(bed: CapacityBed, cell: Cell, seed: int) -> dict:
    seconds = bed.plan.seconds
    with tempfile.TemporaryDirectory(prefix="bench-capacity-", dir=ELSEWHERE) as name:
        folder = Path(name)
        with serving(bed, cell, folder) as served:
            low = served.load(cell.calibration_rate(), seconds(LOW, least=0.5), seed)
            said = _predicted(bed, cell, low["shown"], folder)
            at = said["at"]
            rate = at["rps_per_replica"]
            beyond = TOO_MUCH * said["knee_rps"]
            knee = served.load(beyond, seconds(KNEE, least=0.3), seed, warm_up=0.2)
            there = served.load(rate, seconds(cell.seconds, least=0.5), seed)
    parts = (low, knee, there)
    return {
        "limit": said["limited_by"],
        "knee": _compared(said["knee_rps"], knee["requests_per_second"]),
        "p99": _compared(1e3 * at["p99_seconds"], there["latency_us"]["all"]["99"] / 1e3),
        "closed_form_p99_ms": 1e3 * at["closed_form"]["p99_seconds"],
        "rate": rate,
        "latency_us": there["latency_us"],
        "lag_p99_ms": there["lag_us"].get("99", 0.0) / 1e3,
        "generator_cores": max(
            part["generator_cpu_seconds"] / part["seconds"] for part in (knee, there)
        ),
        **{name: max(part[name] for part in parts) for name in ("others_cores", "stolen_cores")},
        **{name: sum(part[name] for part in parts) for name in ("requests", "wrong")},
        "busy_at_knee": _grown(knee["shown"], BUSY) / knee["wall"] / cell.lanes,
        "busy_at_rate": _grown(there["shown"], BUSY) / there["wall"] / cell.lanes,
        "handler_at_low": _mean(LANE_TIME, low["shown"]),
        "handler_at_knee": _mean(LANE_TIME, knee["shown"]),
        "service_at_low": _mean(SERVICE_TIME, low["shown"]),
        "service_at_rate": _mean(SERVICE_TIME, there["shown"]),
        "faults": [part["faults"] for part in parts if part["faults"]],
        "said": said,
    }


def _compared(predicted: float, found: float) -> dict[str, float]:
    return {"predicted": predicted, "measured": found, "error": predicted / found - 1}
