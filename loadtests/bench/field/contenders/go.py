"""Go's net/http, with pgx for the projects."""

import subprocess
from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import POOL, WORKLOADS, Contender, Start, one_program
from loadtests.bench.field.kept import kept, run, version_of

NAME = "go-net-http"
SOURCES = BENCH / "peers" / "go"

SETTINGS = (
    "http.Server with ServeMux; ReadHeaderTimeout 10 s and IdleTimeout 75 s (pkg.go.dev/net/http#Server: "
    "without them a client may stay for ever); GOMAXPROCS as many as CPUs, Go's own defaults for the garbage "
    "collector; built with -trimpath, -s -w, without cgo and without a profile; files: http.FileServer on "
    "http.Dir, which uses sendfile, and http.ServeContent for index.html, which FileServer would redirect; "
    f"projects: pgxpool of {POOL} connections, which prepares statements by itself, ids by google/uuid "
    "(version 7), documents checked by encoding/json"
)


def _build(_profile: str) -> Path:
    version = version_of(["go", "version"], NAME)
    sources = [*SOURCES.glob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]
    return kept(NAME, sources, version, _make) / NAME


def _make(folder: Path) -> None:
    argv = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    clean = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    run(NAME, [*argv, "-o", str(folder / NAME), "."], SOURCES, clean)


def _argv(program: Path, start: Start) -> list[str]:
    return [str(program), *start.arguments()]


def _version(program: Path) -> str:
    """Of the Go that built it, and of pgx."""
    said = subprocess.run(["go", "version", program], capture_output=True, text=True, check=True)
    lines = (SOURCES / "go.mod").read_text().splitlines()
    pgx = next(line.split()[1] for line in lines if "jackc/pgx" in line)
    return f"{said.stdout.split()[-1].removeprefix('go')} (pgx {pgx.removeprefix('v')})"


CONTENDERS = [
    Contender(
        name=NAME,
        family="Go",
        workloads=frozenset(WORKLOADS),
        settings=SETTINGS,
        build=_build,
        argv=_argv,
        installed=one_program,
        version=_version,
    )
]
