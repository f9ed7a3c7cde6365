"""corelane-server, and the same built with the profile of its own load where `make pgo` made it."""

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.bench.experiment import builds, servers
from loadtests.bench.experiment.servers import CONNECTIONS
from loadtests.bench.field.contender import POOL, WORKLOADS, Contender, Start, one_program
from loadtests.bench.mixed.databases import EVERYBODY_WAITS

SETTINGS = (
    "one lane, pinned (`--lanes 1 --pin on`, as the chart sets on an exclusive CPU), log level "
    f"warn, room for {CONNECTIONS:,} connections and as many waiting requests (by default a lane "
    "refuses what comes when 1,024 wait: no peer refuses anything), else defaults; projects: one "
    f"pool of {POOL} connections, and whoever must wait for it waits"
)


def _build(profile: str) -> Path:
    return builds.build(builds.SERVICES, ["corelane-server"], profile) / "corelane-server"


def _trained(_profile: str) -> Path:
    return builds.TRAINED


def _argv(program: Path, start: Start) -> list[str]:
    argv = servers.corelane(program, start.address, start.threads, "")
    argv += ["--static.root", str(start.static), "--limits.queue", str(CONNECTIONS)]
    if start.database is None:
        return argv
    return [*argv, *_database(start)]


def _database(start: Start) -> list[str]:
    """The password and the tokens are in files: no secret is on the command line."""
    url = urlsplit(start.database)
    password, tokens = start.folder / "password", start.folder / "tokens"
    password.write_text(url.password or "")
    tokens.write_text(f"bench sha256:{hashlib.sha256((start.token or '').encode()).hexdigest()}\n")
    address = f"{url.scheme}://{url.username}@{url.hostname}:{url.port}{url.path}"
    argv = ["--database.kind", "postgres", "--database.url", address]
    argv += ["--database.password-file", str(password), "--auth.tokens", str(tokens)]
    return [*argv, "--database.connections", str(POOL // start.threads), *EVERYBODY_WAITS]


def _version(_program: Path) -> str:
    ours = builds.locked(builds.SERVICES)
    return f"{ours['corelane']} (hyper {ours['hyper']}, tokio {ours['tokio']})"


def _contender(name: str, settings: str, build) -> Contender:
    return Contender(
        name=name,
        family="Corelane",
        workloads=frozenset(WORKLOADS),
        settings=settings,
        build=build,
        argv=_argv,
        installed=one_program,
        version=_version,
    )


CONTENDERS = [_contender(servers.CORELANE, SETTINGS, _build)]
if builds.TRAINED.is_file():
    trained = f"built by `make pgo` with the profile of its own load; {SETTINGS}"
    CONTENDERS.append(_contender(servers.TRAINED, trained, _trained))
