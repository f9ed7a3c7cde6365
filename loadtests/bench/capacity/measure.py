"""Measures one cell in one round: calibrates at a low load, asks the model, then measures both."""

import contextlib
import http.client
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadtests.bench import cpu
from loadtests.bench.capacity.cells import KINDS, USED, USERS, Cell
from loadtests.bench.experiment.builds import Programs
from loadtests.bench.experiment.generator import Generator, Place
from loadtests.bench.experiment.plan import Stand
from loadtests.bench.experiment.servers import HOST, Running, metrics, running, total
from loadtests.bench.mixed.stack import EVERYBODY_WAITS, PAGE, TOKEN, Server
from stack.ports import free_ports
from stack.postgres_home import ELSEWHERE
from tools.errors import ToolError


@dataclass(frozen=True)
class Seen:
    """What is counted at one moment."""

    at: float
    metrics: str
    used: float
    """CPU seconds of the server."""
    machine: cpu.Machine


@dataclass(frozen=True)
class Replica:
    """A server that answers."""

    server: Running
    admin: str

    def look(self) -> Seen:
        """Its counters, and the machine's."""
        shown, used = metrics(self.admin), self.server.cpu_seconds()
        return Seen(time.monotonic(), shown, used, cpu.Machine.now())


@contextlib.contextmanager
def serving(cell: Cell, programs: Programs, cpus: list[int], folder: Path) -> Iterator[Replica]:
    """Starts it. A lane is pinned to its CPU, the server's other threads are not."""
    settings = ["--lanes", str(cell.lanes), "--pin", "on"]
    settings += ["--limits.slots", str(cell.slots)] if cell.slots else []
    settings += ["--faults", "on"] if any(cell.wait_ms) else []
    file = ["--database.kind", "sqlite", "--database.path", str(folder / "projects.db")]
    database = [*file, *EVERYBODY_WAITS] if cell.projects else []
    server = Server(settings, free_ports(), database)
    # SQLite's writer has its own thread.
    allowed = cpus if cell.projects else cpus[: cell.lanes]
    with running(server, programs, allowed) as process:
        replica = Replica(process, f"{HOST}:{server.admin_port}")
        if any(cell.wait_ms):
            _delay(replica.admin, cell)
        yield replica


def _delay(admin: str, cell: Cell) -> None:
    """Lets every `/work` wait, as for a database."""
    least, more = cell.wait_ms
    latency = {"fixed": f"{least}ms", "jitter": f"{more}ms"}
    fault = {"route": "/work", "share": 1, "latency": latency, "expires_in": "10m"}
    with contextlib.closing(http.client.HTTPConnection(admin, timeout=10)) as connection:
        connection.request("PUT", "/faults", json.dumps({"faults": [fault]}))
        reply = connection.getresponse()
        if reply.status >= 300:
            raise ToolError(f"{admin}/faults: {reply.status} {reply.read().decode()}")


def grown(before: Seen, after: Seen, name: str) -> float:
    """By how much that sum has grown."""
    return total(after.metrics, name) - total(before.metrics, name)


def quiet(before: Seen, after: Seen, generator: float) -> dict[str, float]:
    """Cores that neither the server nor the generator took, and cores that the hypervisor did."""
    wall = after.at - before.at
    ours = after.used - before.used + generator
    others = after.machine.busy - before.machine.busy - ours
    stolen = after.machine.stolen - before.machine.stolen
    return {"others_cores": max(0.0, others) / wall, "stolen_cores": stolen / wall}


Look = Callable[[], object]
"""Reads counters."""


@dataclass(frozen=True)
class Part:
    """One load."""

    rate: float
    seconds: float
    seed: int
    warm_up: float = 0.5


@dataclass(frozen=True)
class Asker:
    """What loads are made with."""

    program: Path
    cpus: list[int]
    ops_per_ms: float

    def ask(self, cell: Cell, server: Running, part: Part, look: Look) -> dict:
        """One load on one server; latencies in milliseconds, for each kind and for all.

        `look` is called before and after it, with no request in flight.
        """
        place = Place(self.cpus, first=True)
        if cell.projects:
            return self._users(server, place, part, look)
        options = {"rate": round(part.rate, 1), "seconds": part.seconds, "seed": part.seed}
        options |= {"connections": cell.connections, "warm_up": part.warm_up}
        options |= self._works(cell)
        # Connections stay on a lane, and the model's arrivals at each lane are random.
        options["next"] = "any"
        with Generator(self.program, place, "open", server.address, **options) as load:
            before, result, after = look(), load.measure(), look()
        latency = {
            kind: {key: value if key == "count" else value / 1e3 for key, value in times.items()}
            for kind, times in result["latency_us"].items()
        }
        lag = result["lag_us"].get("99", 0.0) / 1e3
        return {**_common(result, result["wrong"], latency, lag), "seen": (before, after)}

    def _works(self, cell: Cell) -> dict[str, object]:
        works = (f"{round(ms * self.ops_per_ms)}={share:g}" for ms, share in cell.works)
        return {"works": ",".join(works)} if cell.works else {}

    def _users(self, server: Running, place: Place, part: Part, look: Look) -> dict:
        with tempfile.TemporaryDirectory(prefix="bench-capacity-") as folder:
            token = Path(folder) / "token"
            token.write_text(TOKEN)
            options = {"users": USERS, "page": PAGE, "token": token, "seed": part.seed}
            with Generator(self.program, place, "users", server.address, **options) as load:
                wanted = {"loop": "open", "kinds": KINDS, "rate": part.rate, "seed": part.seed}
                load.measure(json.dumps({**wanted, "seconds": part.warm_up}))
                last = json.dumps({**wanted, "seconds": part.seconds})
                before, result, after = look(), load.measure(last), look()
        lag = result["lag_ms"].get("99", 0.0)
        found = _common(result, result["errors"], result["latency_ms"], lag)
        return {**found, "seen": (before, after)}


def _common(result: dict, wrong: int, latency: dict, lag_p99_ms: float) -> dict:
    """What both modes tell, under one name each."""
    return {
        "requests": result["requests"],
        "wrong": wrong,
        "faults": result["faults"],
        "seconds": result["seconds"],
        "requests_per_second": result["requests_per_second"],
        "latency_ms": latency,
        "lag_p99_ms": lag_p99_ms,
        "generator_cores": result["generator_cpu_seconds"] / result["seconds"],
        "lanes": result["lanes"],
    }


@dataclass(frozen=True)
class Prediction:
    """Of one cell, calibrated at a low load."""

    knee: float
    """Requests per second."""
    limit: str
    rate: float
    """The load for which the times are."""
    p99_ms: float
    """Simulated, over all requests."""
    closed_form_p99_ms: float
    said: dict
    """All that the command printed."""


def predicted(
    program: Path, cell: Cell, seen: tuple[Seen, Seen], *, used: float, outside: float, folder: Path
) -> Prediction:
    """Asks the command for the knee, and for the times at the share `used` of it."""
    files = []
    for name, look in zip(("before", "after"), seen, strict=True):
        file = folder / f"{cell.name}-{name}.prom"
        file.write_text(look.metrics)
        files += ["--from", str(file)]
    argv = [str(program), "capacity", *files, "--used", f"{used:.0%}", "--json"]
    argv += ["--outside", f"{1e6 * outside:.2f}us"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise ToolError(f"{' '.join(argv)}: {result.stderr.strip()}")
    said = json.loads(result.stdout)
    at = said["at"]
    return Prediction(
        knee=said["knee_rps"],
        limit=said["limited_by"],
        rate=at["rps_per_replica"],
        p99_ms=1e3 * at["p99_seconds"],
        closed_form_p99_ms=1e3 * at["closed_form"]["p99_seconds"],
        said=said,
    )


LANE_TIME = "corelane_load_table_lane_time_seconds_total"
SERVICE_TIME = "corelane_load_table_service_time_seconds_total"
OBSERVATIONS = "corelane_load_table_observations_total"
LANE_BUSY = ("corelane_lane_cpu_seconds_total", "corelane_lane_busy_seconds_total")

TOO_MUCH = 1.3
"""The load at which the knee is measured, in what is predicted: a queue is never empty then, and what comes out is
what the replica can do."""


LOW, KNEE = 2.5, 1.5
"""Seconds of the low load and of that beyond the knee; a cell says how long the p99 is measured."""

NOTHING = Cell("nothing", "/work of one step", works=((1e-6, 1.0),), low=200_000.0)
"""Requests whose handler takes no time, at more than any lane can do."""


@dataclass
class CapacityStand(Stand):
    """What every measurement uses."""

    programs: Programs | None = None
    command: Path = Path()
    """The program `corelane`."""
    asker: Asker | None = None
    outside: float = 0.0
    """Time of a request on a busy lane outside its handler, in seconds."""


def outside(stand: CapacityStand) -> float:
    """The cost of a request on a busy lane of this machine outside its handler, in seconds.

    A low load cannot separate it from the cost of waking up.
    """
    with (
        tempfile.TemporaryDirectory(prefix="bench-capacity-", dir=ELSEWHERE) as folder,
        serving(NOTHING, stand.programs, list(stand.cpus), Path(folder)) as replica,
    ):
        part = Part(NOTHING.low, stand.plan.seconds(KNEE, least=0.3) / 2, seed=1, warm_up=0.1)
        before, after = _ask(stand, NOTHING, replica, part)["seen"]
    # CPU time lacks what others take of a lane meanwhile, which its handlers' time has; busy time lacks the call that
    # looks at sockets.
    lane = max(grown(before, after, name) for name in LANE_BUSY)
    return max(0.0, lane - grown(before, after, LANE_TIME)) / grown(before, after, OBSERVATIONS)


def measured(stand: CapacityStand, cell: Cell, seed: int) -> dict:
    """One sample: a prediction and its measurement."""
    seconds = stand.plan.seconds
    with tempfile.TemporaryDirectory(prefix="bench-capacity-", dir=ELSEWHERE) as name:
        folder = Path(name)
        with serving(cell, stand.programs, list(stand.cpus), folder) as replica:
            part = Part(cell.calibration_rate(), seconds(LOW, least=0.5), seed)
            low = _ask(stand, cell, replica, part)
            said = predicted(
                stand.command, cell, low["seen"], used=USED, outside=stand.outside, folder=folder
            )
            part = Part(TOO_MUCH * said.knee, seconds(KNEE, least=0.3), seed, warm_up=0.2)
            knee = _ask(stand, cell, replica, part)
            part = Part(said.rate, seconds(cell.seconds, least=0.5), seed)
            at = _ask(stand, cell, replica, part)
    return {
        "calibration_rate": cell.calibration_rate(),
        "limit": said.limit,
        "knee": {"predicted": said.knee, "measured": knee["requests_per_second"]},
        "p99": {"predicted": said.p99_ms, "measured": at["latency_ms"]["all"]["99"]},
        "closed_form_p99_ms": said.closed_form_p99_ms,
        "rate": said.rate,
        "p99_ms": at["latency_ms"]["all"]["99"],
        "latency_ms": at["latency_ms"],
        "lag_p99_ms": at["lag_p99_ms"],
        "generator_cores": max(at["generator_cores"], knee["generator_cores"]),
        "others_cores": max(part["others_cores"] for part in (low, knee, at)),
        "stolen_cores": max(part["stolen_cores"] for part in (low, knee, at)),
        "busy_at_knee": _busy(cell, *knee["seen"]),
        "busy_at_rate": _busy(cell, *at["seen"]),
        "handler_at_low": _mean(LANE_TIME, *low["seen"]),
        "handler_at_knee": _mean(LANE_TIME, *knee["seen"]),
        "service_at_low": _mean(SERVICE_TIME, *low["seen"]),
        "service_at_rate": _mean(SERVICE_TIME, *at["seen"]),
        "lanes": at["lanes"],
        "requests": low["requests"] + knee["requests"] + at["requests"],
        "wrong": low["wrong"] + knee["wrong"] + at["wrong"],
        "faults": [part["faults"] for part in (low, knee, at) if part["faults"]],
        "said": said.said,
    }


def _ask(stand: CapacityStand, cell: Cell, replica: Replica, part: Part) -> dict:
    result = stand.asker.ask(cell, replica.server, part, replica.look)
    return {**result, **quiet(*result["seen"], result["generator_cores"] * result["seconds"])}


def _busy(cell: Cell, before: Seen, after: Seen) -> float:
    """The share of the time that lanes were busy."""
    busy = grown(before, after, "corelane_lane_busy_seconds_total")
    return busy / (after.at - before.at) / cell.lanes


def _mean(name: str, before: Seen, after: Seen) -> float:
    """What a request took, in seconds, by a sum over requests."""
    return grown(before, after, name) / max(1.0, grown(before, after, OBSERVATIONS))
