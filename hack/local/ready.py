"""Waits until every process is ready."""

import http.client
import time
from collections.abc import Callable
from pathlib import Path

from local import database, supervisor
from local.topology import HOST, Replica, Topology
from tools import progress
from tools.errors import ToolError

DEADLINE = 30.0
LINES = 8
"""Number of log lines in the error about a process that does not become ready."""


def wait(topology: Topology, run: Path) -> None:
    """Returns when all processes are ready; otherwise raises an error with their logs."""
    pending = _checks(topology, run)
    deadline = time.monotonic() + DEADLINE
    while True:
        pending = {name: check for name, check in pending.items() if not check()}
        if not pending:
            return
        dead = _dead(run)
        if dead or time.monotonic() > deadline:
            raise ToolError(_report(dead, list(pending), run))
        time.sleep(0.03)


def _checks(topology: Topology, run: Path) -> dict[str, Callable[[], bool]]:
    checks: dict[str, Callable[[], bool]] = {
        replica.name: lambda replica=replica: _serves(replica, topology.database)
        for replica in topology.replicas
    }
    checks["prometheus"] = lambda: _get(topology.prometheus_port, "/-/ready") is not None
    if topology.database == "postgres":
        checks[database.PART] = lambda: database.ready(run, _pid(run, database.PART))
    missing = {replica.name for replica in topology.replicas}

    def gateway_reaches_all() -> bool:
        for _ in range(len(topology.replicas)):
            headers = _get(topology.gateway_port, "/hello")
            if headers is None:
                return False
            missing.discard(headers.get("corelane-replica", ""))
        return not missing

    checks["gateway"] = gateway_reaches_all
    checks["supervisord"] = lambda: _all_stay(run)
    return checks


def _serves(replica: Replica, kind: str) -> bool:
    """Whether a replica is ready, and has its database where there is one."""
    ready = _get(replica.admin_port, "/readyz") is not None
    return ready and (kind == "none" or _get(replica.port, "/projects?limit=1") is not None)


def _pid(run: Path, name: str) -> int:
    return supervisor.states(run).get(name, {}).get("pid", 0)


def _all_stay(run: Path) -> bool:
    """Whether supervisord has seen every process live for its `startsecs`."""
    states = supervisor.states(run)
    return bool(states) and all(info["statename"] == "RUNNING" for info in states.values())


def _get(port: int, path: str) -> http.client.HTTPMessage | None:
    """The headers of the reply, or None unless it is a 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.headers if reply.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _dead(run: Path) -> list[str]:
    """Processes that exited right after their start, which supervisord would restart again and again."""
    states = supervisor.states(run)
    return [name for name, info in states.items() if info["statename"] in ("BACKOFF", "FATAL")]


def _report(dead: list[str], pending: list[str], run: Path) -> str:
    if dead:
        lines = [f"{', '.join(dead)} exited right after the start"]
    else:
        lines = [f"not ready within {DEADLINE:.0f} s: {', '.join(pending)}"]
    for name in dead or [*pending, "supervisord"]:
        log = run / f"{name}.log"
        lines.append(f"the end of {log}:")
        lines += [f"    {line}" for line in progress.tail(log, LINES)]
    return "\n".join(lines)
