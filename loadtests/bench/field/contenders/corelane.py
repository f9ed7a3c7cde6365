"""corelane-server, with each placement on two CPUs, and built with the profile of its own load."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.servers import CONNECTIONS, CORELANE
from loadtests.bench.field.contender import (
    FEW,
    MIXED_TWO,
    PARTS,
    Contender,
    Start,
    one_program,
)

TRAINED = f"{CORELANE} PGO"

PLACEMENTS = ("hashed", "shared", "least-loaded")

SETTINGS = (
    "a lane for each CPU, pinned (`--pin on`, as the chart sets on exclusive CPUs), log level "
    f"warn. Up to {CONNECTIONS:,} connections and as many waiting requests, because no peer rejects requests "
    "and by default a lane sheds them when 1,024 wait. Otherwise defaults"
)


def _build(profile: str) -> Path:
    return builds.build(builds.SERVICES, ["corelane-server"], profile) / "corelane-server"


def _trained(_profile: str) -> Path:
    return builds.TRAINED


def _argv(placement: str, program: Path, start: Start) -> list[str]:
    argv = servers.corelane(program, start.address, start.threads, placement)
    return [*argv, "--static.root", str(start.static), "--limits.queue", str(CONNECTIONS)]


def _version(_program: Path) -> str:
    ours = builds.locked(builds.SERVICES)
    return f"{ours['corelane']} (hyper {ours['hyper']}, tokio {ours['tokio']})"


def _contender(
    name: str,
    parts: frozenset[str],
    settings: str,
    build: Callable[[str], Path] = _build,
    placement: str = "",
) -> Contender:
    return Contender(
        name=name,
        family="Corelane",
        parts=parts,
        settings=settings,
        build=build,
        argv=partial(_argv, placement),
        installed=one_program,
        version=_version,
    )


def _placed(placement: str) -> Contender:
    settings = f"corelane-server with `--placement {placement}`, where two CPUs make it matter"
    parts = frozenset({MIXED_TWO, FEW})
    return _contender(f"{CORELANE} {placement}", parts, settings, placement=placement)


EVERYTHING = frozenset(PARTS) - {MIXED_TWO, FEW}

CONTENDERS = [_contender(CORELANE, EVERYTHING, SETTINGS), *map(_placed, PLACEMENTS)]
if builds.TRAINED.is_file():
    trained = "corelane-server built by `make pgo` with the profile of its own load"
    CONTENDERS.append(_contender(TRAINED, EVERYTHING, trained, _trained))
