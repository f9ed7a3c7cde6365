"""Go's net/http."""

import subprocess
from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    Contender,
    Start,
)
from loadtests.bench.field.kept import kept, run, version_of

NAME = "go-net-http"
SOURCES = BENCH / "peers" / "go"

SETTINGS = (
    "http.Server with ServeMux; ReadHeaderTimeout 10 s and IdleTimeout 75 s (pkg.go.dev/net/http#Server: "
    "without them a client may stay forever). GOMAXPROCS equals the number of CPUs, the garbage collector has Go's "
    "defaults. Built with -trimpath, -s -w, without cgo and without a profile. Files: http.FileServer on "
    "http.Dir, which uses sendfile, and http.ServeContent for index.html, which FileServer would redirect"
)


def _build(_profile: str) -> Path:
    version = version_of(["go", "version"], NAME)
    sources = [*SOURCES.glob("*.go"), SOURCES / "go.mod"]
    return kept(NAME, sources, version, _make) / NAME


def _make(folder: Path) -> None:
    argv = ["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w"]
    clean = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    run(NAME, [*argv, "-o", str(folder / NAME), "."], SOURCES, clean)


def _argv(program: Path, start: Start) -> list[str]:
    return [str(program), *start.arguments()]


def _version(program: Path) -> str:
    """Of the Go that built it."""
    said = subprocess.run(["go", "version", program], capture_output=True, text=True, check=True)
    return said.stdout.split()[-1].removeprefix("go")


CONTENDERS = [
    Contender(
        name=NAME,
        family="Go",
        parts=COMPUTING | {*FILES, CORES, CONNECTIONS},
        settings=SETTINGS,
        build=_build,
        argv=_argv,
        version=_version,
    )
]
