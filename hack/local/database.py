"""The replicas' database: a shared SQLite file, a PostgreSQL server, or none."""

from pathlib import Path
from urllib.parse import quote

from local.service import REFERENCE, Service
from local.topology import Topology
from stack import HOST, postgres
from stack.postgres import Postgres

PART = "postgres"

KEPT = ("*.db", "*.db-wal", "*.db-shm", PART)
"""Data that survive a restart. Replicas start in their folder, so it contains the SQLite files of
any service.
"""


def make(topology: Topology, run: Path) -> Postgres | None:
    """Creates PostgreSQL's data if there are none yet."""
    if topology.database != "postgres":
        return None
    # More connections than the replicas need (one per lane, plus the superuser's).
    connections = max(100, 10 * len(topology.replicas))
    settings = postgres.Settings(topology.postgres_port, connections=connections)
    return postgres.make(run / PART, settings)


def read(topology: Topology, run: Path) -> Postgres | None:
    return postgres.read(run / PART) if topology.database == "postgres" else None


def flags(topology: Topology, server: Postgres | None, run: Path) -> list[str]:
    """Processes of one host may share a file in WAL mode (sqlite.org/wal.html)."""
    if topology.database == "none":
        return []
    if server is None:
        return ["--database.path", str(run / "projects.db")]
    return server.flags()


def environment(
    topology: Topology, service: Service, server: Postgres | None, run: Path
) -> dict[str, str]:
    """Services other than the reference server read their database from this variable."""
    if topology.database == "none":
        return {}
    if server is None:
        # In a URL, a question mark ends the path and a percent sign starts an escape.
        return {"DATABASE_URL": f"sqlite:{quote(str(run / service.name))}.db?mode=rwc"}
    password = server.password_file.read_text().strip()
    return {"DATABASE_URL": server.url().replace("@", f":{password}@", 1)}


def describe(topology: Topology, run: Path) -> str:
    if topology.database == "postgres":
        return f"in PostgreSQL on {HOST}:{topology.postgres_port} (data in {run / PART})"
    if topology.database == "none":
        return "none: DATABASE=none"
    ours = topology.service == REFERENCE
    names = ["projects" if ours else service.name for service in topology.services]
    return f"in {', '.join(str(run / f'{name}.db') for name in names)}"


def argv(server: Postgres) -> list[str]:
    """Returns PostgreSQL's command line. `env` accepts any path, unlike supervisord's `environment`
    option."""
    variables = server.programs.environment().items()
    return ["env", *(f"{name}={value}" for name, value in variables), *server.argv()]


def program(server: Postgres) -> dict[str, object]:
    user = {"user": server.account.name} if server.account.other else {}
    return {
        "directory": server.home,
        # Abort connections instead of waiting until they close.
        "stopsignal": "INT",
        **user,
    }


def ready(run: Path, pid: int) -> bool:
    server = postgres.read(run / PART)
    return server is not None and server.ready(pid)


def remove(run: Path) -> None:
    postgres.remove(run / PART)
