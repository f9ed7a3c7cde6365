"""The definition of a competitor and of its requests: target, response, and open-loop rate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from loadtests.bench.experiment import servers
from loadtests.bench.experiment.servers import STATIC, Running, Startable

HELLO, DIV, FILE_4K, FILE_10K, WORK = "hello", "div", "file-4k", "file-10k", "work"
MIXED, CORES = "mixed", "cores"
IDLE, C10K, CONNECTIONS = "idle", "c10k", "connections"

PARTS = (HELLO, DIV, FILE_4K, FILE_10K, WORK, MIXED, CORES, CONNECTIONS, IDLE, C10K)
"""Parts that can be measured for a competitor, in report order."""

FILES = (FILE_4K, FILE_10K, C10K)

HELD = f"{servers.CORELANE} without slow lanes"
"""Corelane without slow lanes: long requests block its lanes, as in any event loop."""

PLAIN = frozenset({HELLO, IDLE})
COMPUTING = PLAIN | {DIV, WORK, MIXED}


@dataclass(frozen=True)
class Start:
    address: str
    threads: int
    folder: Path
    static: Path
    """Folder served below /static/."""

    def arguments(self) -> list[str]:
        found = ["--listen", self.address, "--threads", str(self.threads)]
        return [*found, "--static", str(self.static)]


@dataclass(frozen=True)
class Competitor:
    name: str
    family: str
    """Language or kind, such as "Rust", "JVM", "web server" or "floor"."""
    parts: frozenset[str]
    settings: str
    """The recommended production settings that the competitor runs with, and their source. Also why
    a part is not measured, unless that is obvious.
    """
    build: Callable[[str], Path]
    """Builds or obtains the program and returns its path. The cargo profile (`release` or `dev`)
    does not affect programs with a single build. Called once per run, never during a measurement.
    """
    argv: Callable[[Path, Start], list[str]]
    """Command that starts the program in the foreground. Its child processes belong to the program."""
    version: Callable[[Path], str]
    environment: Mapping[str, str] = field(default_factory=dict)
    warm_up: float = 0.3
    """Seconds of load before each measurement; more if code is compiled at run time."""
    warm_up_first: float = 0.0
    """Total seconds of load after the start, shared by all kinds of requests."""
    compilers: tuple[str, ...] = ()
    """Names or name prefixes of threads that compile code at run time."""


OPS = 20_000
"""Iterations of `work`: about 30 µs, the computing time of a small handler."""


@dataclass(frozen=True)
class Workload:
    name: str
    target: str
    body: bytes
    rate: float
    """Requests per second of the open loop. Every competitor sustains this rate on one CPU, so that
    latencies describe servers without overload.
    """
    ops: int | None = None

    def options(self, folder: Path) -> Mapping[str, object]:
        """Returns options of the load generator, which compares every response; the folder is for its input files."""
        if self.name == HELLO:
            return {}
        if self.ops is not None:
            return {"ops": self.ops}
        file = folder / self.name
        if not file.exists():
            file.write_bytes(self.body)
        return {"page": self.target, "file": file}


def work_reply(ops: int) -> bytes:
    """Returns the response of `/work`, as the reference service computes it."""
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
"""Workloads with a single request, by name, in report order."""


@dataclass(frozen=True)
class Placed(Startable):
    competitor: Competitor
    program: Path
    threads: int = 1
    patience: float = 60.0
    """Seconds to wait; the slowest competitor is a JVM on one CPU."""

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
    competitor: Competitor
    process: Running
