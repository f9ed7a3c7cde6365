"""Compiled servers: the floor, the Rust servers including corelane-server, and Go's HTTP server."""

import subprocess
from dataclasses import replace
from pathlib import Path

from loadtests.bench.competitors.competitor import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    HELD,
    HELLO,
    MIXED,
    PARTS,
    Competitor,
    Start,
)
from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.builds import BENCH, kept, run, version_of

ENTRY = "its entry in TechEmpower's FrameworkBenchmarks"

BUILT = (
    "Built like corelane-server without PGO (release, fat LTO, one code generation unit) and with its "
    "allocator, mimalloc, as in the entry of may_minihttp in TechEmpower's FrameworkBenchmarks. Here it "
    "requests huge pages, which is its default: two of them are 4 MiB"
)

RUST_SETTINGS = {
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
    "axum": (
        "axum::serve on tokio's multi-thread runtime with as many workers as CPUs, as `#[tokio::main]` starts "
        "it; backlog 4096, TCP_NODELAY. Files: ServeDir of tower-http, which its documentation names; it reads "
        f"on other threads. {BUILT}"
    ),
}

RUST_PARTS = {
    "hyper": COMPUTING | {CORES, CONNECTIONS},
    "may_minihttp": COMPUTING | {CORES},
    "actix-web": COMPUTING | {CORES, *FILES},
    "axum": COMPUTING | {CORES, *FILES},
}


def _build_peer(program: str, profile: str) -> Path:
    features = [] if program == "floor" else ["--features", "frameworks"]
    return builds.build(["peers"], profile, "--bin", program, *features) / program


def _argv_peer(program: Path, start: Start) -> list[str]:
    return [str(program), *start.arguments()]


def _version_peer(name: str) -> str:
    locked = builds.locked()
    if name == "may_minihttp":
        return f"{locked[name]} (may {locked['may']})"
    return f"{locked[name]} (tokio {locked['tokio']})"


def _framework(name: str) -> Competitor:
    return Competitor(
        name=name,
        family="Rust",
        parts=frozenset(RUST_PARTS[name]),
        settings=RUST_SETTINGS[name],
        build=lambda profile: _build_peer(name.replace("-", "_"), profile),
        argv=_argv_peer,
        version=lambda _program: _version_peer(name),
    )


FLOOR = Competitor(
    name="floor",
    family="floor",
    parts=COMPUTING | {*FILES, CONNECTIONS},
    settings=(
        "the cost of the kernel alone: one epoll loop with a recv and a send for each request. Replies are as "
        "long as corelane-server's; those to /hello and to files are made at the start. It reads only the "
        "target of a request, has no timeouts and no limits, and keeps only the descriptor of a "
        "connection. It has one thread"
    ),
    build=lambda profile: _build_peer("floor", profile),
    argv=_argv_peer,
    version=lambda _program: builds.locked()["peers"],
)

RUST = [FLOOR, *map(_framework, RUST_SETTINGS)]


OUR_SETTINGS = (
    "a lane for each CPU, pinned (`--pin on`, as the chart sets on exclusive CPUs), log level "
    f"warn. Up to {servers.CONNECTIONS:,} connections and as many waiting requests, because no peer rejects requests "
    "and by default a lane sheds them when 1,024 wait. Slow lanes serve what computes for more than 2 ms, because "
    "short requests take 1 ms in some mixes (default: 0.5 ms). Otherwise defaults"
)

BOUND = "2ms"


def _build_ours(profile: str) -> Path:
    return builds.build(["corelane-server"], profile) / "corelane-server"


def _argv_ours(program: Path, start: Start, slow: str = "on") -> list[str]:
    flags = ("--static.root", str(start.static), "--limits.queue", str(servers.CONNECTIONS))
    flags += ("--slow-lanes.mode", slow, "--slow-lanes.bound", BOUND)
    replica = servers.Replica(flags, lanes=start.threads)
    return replica.argv(builds.Programs(program), start.address, start.folder)


def _argv_held(program: Path, start: Start) -> list[str]:
    return _argv_ours(program, start, slow="off")


def _version_ours(_program: Path) -> str:
    ours = builds.locked()
    return f"{ours['corelane']} (hyper {ours['hyper']}, tokio {ours['tokio']})"


def _ours(name: str, settings: str) -> Competitor:
    return Competitor(
        name=name,
        family="Corelane",
        parts=frozenset(PARTS),
        settings=settings,
        build=_build_ours,
        argv=_argv_ours,
        version=_version_ours,
    )


OURS = [
    _ours(servers.CORELANE, OUR_SETTINGS),
    replace(
        _ours(HELD, "the same with `--slow-lanes.mode off`"),
        parts=frozenset({HELLO, MIXED}),
        argv=_argv_held,
    ),
]


GO_NAME = "go-net-http"
GO_SOURCES = BENCH / "peers" / "go"

GO_SETTINGS = (
    "http.Server with ServeMux; ReadHeaderTimeout 10 s and IdleTimeout 75 s (pkg.go.dev/net/http#Server: "
    "without them a client may stay forever). GOMAXPROCS equals the number of CPUs, the garbage collector has Go's "
    "defaults. Built with -trimpath, -s -w, without cgo and without a profile. Files: http.FileServer on "
    "http.Dir, which uses sendfile, and http.ServeContent for index.html, which FileServer would redirect"
)


def _build_go(_profile: str) -> Path:
    version = version_of(["go", "version"], GO_NAME)
    sources = [*GO_SOURCES.glob("*.go"), GO_SOURCES / "go.mod"]
    return kept(GO_NAME, sources, version, _make_go) / GO_NAME


def _make_go(folder: Path) -> None:
    argv = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    clean = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    run(GO_NAME, [*argv, "-o", str(folder / GO_NAME), "."], GO_SOURCES, clean)


def _version_go(program: Path) -> str:
    said = subprocess.run(["go", "version", program], capture_output=True, text=True, check=True)
    return said.stdout.split()[-1].removeprefix("go")


GO = [
    Competitor(
        name=GO_NAME,
        family="Go",
        parts=COMPUTING | {*FILES, CORES, CONNECTIONS},
        settings=GO_SETTINGS,
        build=_build_go,
        argv=_argv_peer,
        version=_version_go,
    )
]
