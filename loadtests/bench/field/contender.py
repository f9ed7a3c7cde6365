"""What a contender is: how it is built, started and described."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HELLO, DIV, FILE_4K, FILE_10K, WORK = "hello", "div", "file-4k", "file-10k", "work"
MIXED, CORES = "mixed", "cores"
IDLE, C10K, CONNECTIONS = "idle", "c10k", "connections"

PARTS = (HELLO, DIV, FILE_4K, FILE_10K, WORK, MIXED, CORES, CONNECTIONS, IDLE, C10K)
"""What can be measured of a contender, in the order of the report."""

FILES = (FILE_4K, FILE_10K, C10K)
"""The parts for servers of static files."""

PLAIN = frozenset({HELLO, IDLE})
COMPUTING = PLAIN | {DIV, WORK, MIXED}


@dataclass(frozen=True)
class Start:
    """What a contender is started with."""

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
class Contender:
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
