"""Waits until every process is ready."""

import http.client
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

from local import database, supervisor
from local.service import REFERENCE
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
        replica.name: lambda replica=replica: serves(replica, topology)
        for replica in topology.replicas
    }
    checks["dashboard"] = lambda: _get(topology.dashboard_port, "/") is not None
    checks["prometheus"] = lambda: _get(topology.prometheus_port, "/-/ready") is not None
    if topology.database == "postgres":
        checks[database.PART] = lambda: database.ready(run, _pid(run, database.PART))
    ports = {replica.port for replica in topology.replicas}
    checks["gateway"] = lambda: _listens(topology.gateway_port) and reached(topology) == ports
    checks["supervisord"] = lambda: _all_stay(run)
    return checks


def serves(replica: Replica, topology: Topology) -> bool:
    """Whether a replica is ready; the reference server with its database, where there is one."""
    service = topology.service
    path = "/readyz" if service.chassis else service.health
    ready = _get(replica.admin_port, path) is not None
    if service != REFERENCE or topology.database == "none":
        return ready
    return ready and _get(replica.port, "/projects?limit=1") is not None


def reached(topology: Topology) -> set[int]:
    """The ports of the replicas that the gateway's health checks have found to work."""
    found = _get(topology.envoy_admin_port, "/clusters?format=json")
    clusters = json.loads(found)["cluster_statuses"] if found else []
    return {
        host["address"]["socket_address"]["port_value"]
        for cluster in clusters
        if cluster["name"] == "server"
        for host in cluster.get("host_statuses", [])
        if host["health_status"] == {"eds_health_status": "HEALTHY"}
    }


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _pid(run: Path, name: str) -> int:
    return supervisor.states(run).get(name, {}).get("pid", 0)


def _all_stay(run: Path) -> bool:
    """Whether supervisord has seen every process live for its `startsecs`."""
    states = supervisor.states(run)
    return bool(states) and all(info["statename"] == "RUNNING" for info in states.values())


def _get(port: int, path: str) -> bytes | None:
    """The reply, or None unless it is a 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.read() if reply.status == 200 else None
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
    lines += [line for name in dead or [*pending, "supervisord"] for line in last(name, run)]
    return "\n".join(lines)


def last(name: str, run: Path) -> list[str]:
    """The end of the log of a process, for an error about it."""
    log = run / f"{name}.log"
    return [f"the end of {log}:", *(f"    {line}" for line in progress.tail(log, LINES))]
