"""What a contender is: how it is built, started and described."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.errors import ToolError

HELLO, DIV, FILE_4K, FILE_10K, WORK = "hello", "div", "file-4k", "file-10k", "work"
MIXED, MIXED_TWO, FEW, CORES = "mixed", "mixed-two", "few", "cores"
IDLE, C10K, CONNECTIONS = "idle", "c10k", "connections"

PARTS = (
    *(HELLO, DIV, FILE_4K, FILE_10K, WORK, MIXED, MIXED_TWO, FEW, CORES),
    *(CONNECTIONS, IDLE, C10K),
)
"""What can be measured of a contender, in the order of the report."""

FILES = (FILE_4K, FILE_10K, C10K)
"""The parts for servers of static files."""

PLAIN = frozenset({HELLO, IDLE})
COMPUTING = PLAIN | {DIV, WORK, MIXED}

ELF = b"\x7fELF"
"""What a program begins with (elf(5))."""


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
class Installed:
    """What must be on disk to run it; what every Linux has (libc) is not counted."""

    program_bytes: int
    runtime_bytes: int = 0
    """Of what it runs on: a JRE, Node, libraries that are not in the program."""
    what: str = "one program"
    """What is counted."""


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
    installed: Callable[[Path], Installed]
    version: Callable[[Path], str]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to that of the benchmark."""
    warm_up: float = 0.3
    """Seconds of load before each measurement; more where code is compiled while it runs."""
    warm_up_first: float = 0.0
    """Seconds of load once after its start, shared by all its requests."""
    compilers: tuple[str, ...] = ()
    """Names of its threads that compile its code while it runs, or how they begin."""


def size_of(paths: Iterable[Path]) -> int:
    """Bytes of files, and of all files in folders; a file with several names counts once."""
    known: dict[tuple[int, int], int] = {}
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        for file in inside:
            if file.is_file():
                stat = os.stat(file)
                known[stat.st_dev, stat.st_ino] = stat.st_size
    return sum(known.values())


def without_debug(program: Path) -> int:
    """Bytes of a program as it is installed: without what only a debugger reads (strip(1))."""
    with open(program, "rb") as file:
        if file.read(len(ELF)) != ELF:
            return size_of([program])
    if not shutil.which("strip"):
        raise ToolError("strip of binutils is not on PATH: sizes are those without line tables")
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / program.name
        subprocess.run(["strip", "--strip-debug", "-o", stripped, program], check=True)
        return stripped.stat().st_size


def one_program(program: Path) -> Installed:
    """A program without other files."""
    return Installed(without_debug(program), what="one program, without line tables")
