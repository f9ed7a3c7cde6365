"""corelane-server, and the same built with the profile of its own load."""

from collections.abc import Callable
from pathlib import Path

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.servers import CONNECTIONS, CORELANE
from loadtests.bench.field.contender import PARTS, Contender, Start

TRAINED = f"{CORELANE} PGO"

SETTINGS = (
    "a lane for each CPU, pinned (`--pin on`, as the chart sets on exclusive CPUs), log level "
    f"warn. Up to {CONNECTIONS:,} connections and as many waiting requests, because no peer rejects requests "
    "and by default a lane sheds them when 1,024 wait. Otherwise defaults"
)


def _build(profile: str) -> Path:
    return builds.build(["corelane-server"], profile) / "corelane-server"


def _argv(program: Path, start: Start) -> list[str]:
    argv = servers.corelane(program, start.address, start.threads)
    return [*argv, "--static.root", str(start.static), "--limits.queue", str(CONNECTIONS)]


def _version(_program: Path) -> str:
    ours = builds.locked()
    return f"{ours['corelane']} (hyper {ours['hyper']}, tokio {ours['tokio']})"


def _contender(name: str, settings: str, build: Callable[[str], Path]) -> Contender:
    return Contender(
        name=name,
        family="Corelane",
        parts=frozenset(PARTS),
        settings=settings,
        build=build,
        argv=_argv,
        version=_version,
    )


CONTENDERS = [_contender(CORELANE, SETTINGS, _build)]
if builds.TRAINED.is_file():
    trained = "corelane-server built by `make pgo` with the profile of its own load"
    CONTENDERS.append(_contender(TRAINED, trained, lambda _profile: builds.TRAINED))
