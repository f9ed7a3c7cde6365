"""A pool of threads with one queue, in C++, written for this comparison."""

from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import (
    PROJECTS,
    WORKLOADS,
    Contender,
    Installed,
    Start,
    size_of,
)
from loadtests.bench.field.kept import kept, run, version_of
from loadtests.bench.field.libraries import libraries

NAME = "cpp-pool"
SOURCES = BENCH / "peers" / NAME

SETTINGS = (
    "the design of many C++ servers, without what a product has: one thread accepts and waits for "
    "requests by epoll, connections that have sent something go through one queue behind a mutex and a "
    "condition variable to as many workers as CPUs; keep-alive, TCP_NODELAY, backlog 4096, glibc's "
    "allocator, g++ -std=c++20 -O2; files: open, fstat and sendfile for each request; no time-outs and no "
    "conditional requests; no projects: it has no client of PostgreSQL"
)


def _build(_profile: str) -> Path:
    version = version_of(["g++", "--version"], NAME)
    return kept(NAME, [*SOURCES.glob("*.cpp"), *SOURCES.glob("*.hpp")], version, _make) / NAME


def _make(folder: Path) -> None:
    argv = [
        "g++",
        "-std=c++20",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wshadow",
        "-Wconversion",
    ]
    argv += ["-Werror", "-pthread", "-o", str(folder / NAME)]
    run(NAME, [*argv, *map(str, sorted(SOURCES.glob("*.cpp")))], SOURCES)


def _argv(program: Path, start: Start) -> list[str]:
    return [str(program), *start.arguments()]


def _installed(program: Path) -> Installed:
    return Installed(size_of([program]), size_of(libraries([program])), "program; libstdc++")


def _version(_program: Path) -> str:
    return f"g++ {version_of(['g++', '-dumpfullversion'], NAME)}"


CONTENDERS = [
    Contender(
        name=NAME,
        family="thread pool",
        workloads=frozenset(WORKLOADS) - {PROJECTS},
        settings=SETTINGS,
        build=_build,
        argv=_argv,
        installed=_installed,
        version=_version,
    )
]
