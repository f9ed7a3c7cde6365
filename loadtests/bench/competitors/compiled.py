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
    "Built like corelane-server without PGO (release, fat LTO, one codegen unit) and with the "
    "same allocator, mimalloc, as may_minihttp in TechEmpower's FrameworkBenchmarks. Here "
    "mimalloc uses its default, huge pages; two of them are 4 MiB"
)

RUST_SETTINGS = {
    "hyper": (
        "http1::Builder with defaults; per CPU a current_thread runtime of tokio and an "
        f"SO_REUSEPORT socket with backlog 4096, as in {ENTRY}. No files, because hyper has no "
        f"file handler. {BUILT}"
    ),
    "may_minihttp": (
        "a coroutine per connection, a worker per CPU, a pool of 1,000 coroutines with stacks "
        f"of 32 KiB, as in {ENTRY}; backlog 1024 (fixed in may). No files, because it has no "
        f"file handler. {BUILT}"
    ),
    "actix-web": (
        "a worker per CPU, backlog 4096, keep-alive 75 s, TCP_NODELAY. Files use actix-files "
        "with read_mode_threshold at 64 KiB, as its documentation recommends: smaller files are "
        f"read on the event loop and not on another thread. {BUILT}"
    ),
    "axum": (
        "axum::serve on tokio's multi-threaded runtime with a worker per CPU, as with "
        "`#[tokio::main]`; backlog 4096, TCP_NODELAY. Files use ServeDir of tower-http, as its "
        f"documentation suggests, which reads on other threads. {BUILT}"
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
        "kernel cost only: a single-threaded epoll loop with one recv and one send per request. Responses "
        "are as long as those of corelane-server; /hello and files are prepared at startup. It parses "
        "only the request target, has no timeouts or limits, and keeps no state per connection but "
        "the descriptor"
    ),
    build=lambda profile: _build_peer("floor", profile),
    argv=_argv_peer,
    version=lambda _program: builds.locked()["peers"],
)

RUST = [FLOOR, *map(_framework, RUST_SETTINGS)]


OUR_SETTINGS = (
    "a pinned lane per CPU (`--pin on`, as in the chart for exclusive CPUs); log level warn. "
    f"{servers.CONNECTIONS:,} connections and as many queued requests, because the other servers "
    "never reject requests and a lane does from 1,024 on by default. Slow lanes start at 2 ms "
    "of computation (default 0.5 ms), because short requests take 1 ms in some mixes. Otherwise "
    "defaults"
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
        _ours(HELD, "as above, with `--slow-lanes.mode off`"),
        parts=frozenset({HELLO, MIXED}),
        argv=_argv_held,
    ),
]


GO_NAME = "go-net-http"
GO_SOURCES = BENCH / "peers" / "go"

GO_SETTINGS = (
    "http.Server with ServeMux; ReadHeaderTimeout 10 s and IdleTimeout 75 s (default: none, see "
    "pkg.go.dev/net/http#Server). GOMAXPROCS equals the number of CPUs; "
    "default garbage collector. Built with -trimpath, -s -w, without cgo and PGO. Files use "
    "http.FileServer on http.Dir (sendfile), except for index.html, which FileServer would "
    "redirect: http.ServeContent"
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
