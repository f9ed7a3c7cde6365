"""What a competitor is, and what it is asked: the target, its reply, and the rate of the open loop."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import servers
from loadtests.bench.experiment.servers import STATIC, Running, Startable

HELLO, DIV, FILE_4K, FILE_10K, WORK = "hello", "div", "file-4k", "file-10k", "work"
MIXED, CORES = "mixed", "cores"
IDLE, C10K, CONNECTIONS = "idle", "c10k", "connections"

PARTS = (HELLO, DIV, FILE_4K, FILE_10K, WORK, MIXED, CORES, CONNECTIONS, IDLE, C10K)
"""What can be measured of a competitor, in the order of the report."""

FILES = (FILE_4K, FILE_10K, C10K)
"""The parts for servers of static files."""

HELD = f"{servers.CORELANE} without slow lanes"
"""Its lanes are held by long requests, like any event loop."""

PLAIN = frozenset({HELLO, IDLE})
COMPUTING = PLAIN | {DIV, WORK, MIXED}


@dataclass(frozen=True)
class Start:
    """What a competitor is started with."""

    address: str
    """HOST:PORT to listen on."""
    threads: int
    """As many as it has CPUs."""
    folder: Path
    """Its own, empty: for its configuration and what it writes."""
    static: Path
    """Its files are requested below /static/."""

    def arguments(self) -> list[str]:
        """The command line that all programs of `peers/` share."""
        found = ["--listen", self.address, "--threads", str(self.threads)]
        return [*found, "--static", str(self.static)]


@dataclass(frozen=True)
class Competitor:
    """One server under comparison."""

    name: str
    family: str
    """Of its language or kind, as in "Rust", "JVM", "web server", "floor"."""
    parts: frozenset[str]
    """What is measured of it."""
    settings: str
    """The recommended production settings that it runs with, and who recommends them; and why a
    part is not measured, where that is not plain."""
    build: Callable[[str], Path]
    """Builds or obtains it with a profile of cargo's (`release`, `dev`; others have one build);
    the program to start. Called once for a run, never while something is measured."""
    argv: Callable[[Path, Start], list[str]]
    """The command that starts the program. It stays in the foreground; its children are its own."""
    version: Callable[[Path], str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to that of the benchmark."""
    warm_up: float = 0.3
    """Seconds of load before each measurement; more where code is compiled while it runs."""
    warm_up_first: float = 0.0
    """Seconds of load once after its start, shared by all its requests."""
    compilers: tuple[str, ...] = ()
    """Names of its threads that compile its code while it runs, or how they begin."""


OPS = 20_000
"""Iterations of `work`: some 30 µs, as much as a small handler computes."""


@dataclass(frozen=True)
class Workload:
    """One request, over and over."""

    name: str
    target: str
    body: bytes
    rate: float
    """Requests per second of the open loop: what every competitor carries on one CPU, so that
    latencies are those of servers that are not overloaded."""
    ops: int | None = None

    def options(self, folder: Path) -> Mapping[str, object]:
        """Of the load generator, which compares every reply; the folder is for what it reads."""
        if self.name == HELLO:
            return {}
        if self.ops is not None:
            return {"ops": self.ops}
        file = folder / self.name
        if not file.exists():
            file.write_bytes(self.body)
        return {"page": self.target, "file": file}


def work_reply(ops: int) -> bytes:
    """The reply of `/work`, as the reference service computes it."""
    state = 1
    for _ in range(ops):
        state = (state * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) % 2**64
    return f"{state:016x}\n".encode()


REQUESTS = {
    workload.name: workload
    for workload in (
        Workload(HELLO, "/hello", servers.HELLO, rate=5000),
        Workload(DIV, "/div/4", b"2", rate=5000),
        Workload(FILE_4K, "/static/4k.txt", (STATIC / "4k.txt").read_bytes(), rate=2000),
        Workload(FILE_10K, "/static/index.html", (STATIC / "index.html").read_bytes(), rate=2000),
        Workload(WORK, f"/work?ops={OPS}", work_reply(OPS), rate=2000, ops=OPS),
    )
}
"""Workloads of a single request, by name, in the order of the report."""


@dataclass(frozen=True)
class Placed(Startable):
    """A competitor with its program, and a thread for each of its CPUs."""

    competitor: Competitor
    program: Path
    threads: int = 1
    patience: float = 60.0
    """The slowest is a JVM on one CPU."""

    @property
    def name(self) -> str:
        return self.competitor.name

    @property
    def environment(self) -> Mapping[str, str]:
        return self.competitor.environment

    @property
    def probe(self) -> servers.Request:
        known = (one for name, one in REQUESTS.items() if name in self.competitor.parts)
        first = next(known, REQUESTS[HELLO])
        return first.target, first.body

    def argv(self, _programs: object, address: str, folder: Path) -> list[str]:
        return self.competitor.argv(self.program, Start(address, self.threads, folder, STATIC))


@dataclass(frozen=True)
class Subject:
    """A competitor that answers."""

    competitor: Competitor
    process: Running
