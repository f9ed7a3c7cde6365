"""The servers in Rust: the floor, and the frameworks."""

from pathlib import Path

from loadtests.bench.experiment import builds
from loadtests.bench.field.contender import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    Contender,
    Start,
)

ENTRY = "its entry in TechEmpower's FrameworkBenchmarks"

BUILT = (
    "Built like corelane-server without PGO (release, fat LTO, one code generation unit) and with its "
    "allocator, mimalloc, as in the entry of may_minihttp in TechEmpower's FrameworkBenchmarks. Here it requests "
    "huge pages, which is its default: two of them are 4 MiB"
)

SETTINGS = {
    "hyper": (
        "http1::Builder with its defaults on tokio's current_thread runtime, one of both per "
        f"CPU, each with a socket of SO_REUSEPORT and backlog 4096, as in {ENTRY}. "
        f"No files, because it has no handler for them. {BUILT}"
    ),
    "may_minihttp": (
        "one coroutine for each connection, as many workers as CPUs, a pool of 1,000 coroutines and "
        f"stacks of 32 KiB as in {ENTRY}, backlog 1024 (fixed in may). No files, "
        f"because it has no handler for them. {BUILT}"
    ),
    "actix-web": (
        "as many workers as CPUs, backlog 4096, keep-alive 75 s, TCP_NODELAY. Files: actix-files, "
        "which reads those below 64 KiB on the event loop (read_mode_threshold, which its documentation "
        "recommends; by default each read goes to another thread). "
        f"{BUILT}"
    ),
}

PARTS = {
    "hyper": COMPUTING | {CORES, CONNECTIONS},
    "may_minihttp": COMPUTING | {CORES},
    "actix-web": COMPUTING | {CORES, *FILES},
}


def _build(program: str, profile: str) -> Path:
    features = [] if program == "floor" else ["--features", "frameworks"]
    return builds.build(["peers"], profile, "--bin", program, *features) / program


def _argv(program: Path, start: Start) -> list[str]:
    return [str(program), *start.arguments()]


def _version(name: str) -> str:
    locked = builds.locked()
    if name == "may_minihttp":
        return f"{locked[name]} (may {locked['may']})"
    return f"{locked[name]} (tokio {locked['tokio']})"


def _framework(name: str) -> Contender:
    return Contender(
        name=name,
        family="Rust",
        parts=frozenset(PARTS[name]),
        settings=SETTINGS[name],
        build=lambda profile: _build(name.replace("-", "_"), profile),
        argv=_argv,
        version=lambda _program: _version(name),
    )


FLOOR = Contender(
    name="floor",
    family="floor",
    parts=COMPUTING | {*FILES, CONNECTIONS},
    settings=(
        "the cost of the kernel alone: one epoll loop with a recv and a send for each request. Replies are as "
        "long as corelane-server's; those to /hello and to files are made at the start. It reads only the "
        "target of a request, has no timeouts and no limits, and keeps only the descriptor of a "
        "connection. It has one thread"
    ),
    build=lambda profile: _build("floor", profile),
    argv=_argv,
    version=lambda _program: builds.locked()["peers"],
)

CONTENDERS = [FLOOR, *map(_framework, SETTINGS)]
"""The floor, and the frameworks."""
