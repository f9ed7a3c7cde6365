"""Waits until every process is ready."""

import http.client
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

from local import database, supervisor
from local.service import REFERENCE
from local.topology import Replica, Topology
from stack import HOST
from stack.http import ask
from tools import progress
from tools.errors import ToolError

DEADLINE = 30.0
LINES = 8
"""Log lines in the error about a process that does not become ready."""


TRIES = 3
"""Failed starts after which a replica is considered failed. supervisord waits between them and
continues to retry.
"""

GRACE = 5.0
"""Additional seconds for the gateway if replicas are not ready at the deadline."""


def wait(topology: Topology, run: Path, begun: int) -> list[str]:
    """Waits until some replicas and all other processes are ready; returns the names of replicas
    that are not.

    If too few become ready, raises an error with the end of their logs. `begun` is supervisord's
    mark before it started them.
    """
    replicas = {replica.name for replica in topology.replicas}
    deadline = time.monotonic() + DEADLINE
    if topology.database == "postgres":
        _start_after_postgres(topology, run, deadline, begun)
    failed: set[str] = set()
    checks = _checks(topology, run, failed)
    pending = set(checks)
    while True:
        pending = {name for name in pending if not checks[name]()}
        down = _down(run, begun)
        failed.update(down & replicas)
        dead = (down - replicas) | (failed if failed == replicas else set())
        late = time.monotonic() > deadline
        if late and pending & replicas and not pending - replicas - {"gateway", "supervisord"}:
            failed.update(pending & replicas)
            deadline += GRACE
            late = failed == replicas
        if dead or late:
            raise ToolError(_report(dead, pending, run))
        if not pending - failed:
            return sorted(failed & pending)
        time.sleep(0.03)


def _start_after_postgres(topology: Topology, run: Path, deadline: float, begun: int) -> None:
    """Starts the replicas once PostgreSQL accepts connections, because they may need it at start,
    for example for migrations.
    """
    while not database.ready(run, _pid(run, database.PART)):
        dead = _down(run, begun)
        if dead or time.monotonic() > deadline:
            raise ToolError(_report(dead, {database.PART}, run))
        time.sleep(0.03)
    for replica in topology.replicas:
        supervisor.begin(run, replica.name)


def _checks(topology: Topology, run: Path, failed: set[str]) -> dict[str, Callable[[], bool]]:
    checks: dict[str, Callable[[], bool]] = {
        replica.name: lambda replica=replica: serves(replica, topology)
        for replica in topology.replicas
    }
    checks["dashboard"] = lambda: _get(topology.dashboard_port, "/") is not None
    checks["prometheus"] = lambda: _get(topology.prometheus_port, "/-/ready") is not None

    def wanted() -> set[int]:
        return {replica.port for replica in topology.replicas if replica.name not in failed}

    checks["gateway"] = lambda: _listens(topology.gateway_port) and reached(topology) == wanted()
    checks["supervisord"] = lambda: _all_stay(run, failed)
    return checks


def serves(replica: Replica, topology: Topology) -> bool:
    """Whether a replica is ready; for the reference server, this includes its database, if any."""
    service = topology.of(replica)
    path = "/readyz" if service.chassis else service.health
    ready = _get(replica.admin_port, path) is not None
    # With mutual TLS, only the gateway reaches the traffic port.
    if service != REFERENCE or topology.database == "none" or topology.mtls:
        return ready
    return ready and _get(replica.port, "/projects?limit=1") is not None


def reached(topology: Topology) -> set[int]:
    """The ports of the replicas that passed the gateway's health checks."""
    found = _get(topology.envoy_admin_port, "/clusters?format=json")
    clusters = json.loads(found)["cluster_statuses"] if found else []
    healthy = {
        host["address"]["socket_address"]["port_value"]
        for cluster in clusters
        for host in cluster.get("host_statuses", [])
        if host["health_status"] == {"eds_health_status": "HEALTHY"}
    }
    return healthy & {replica.port for replica in topology.replicas}


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True


def _pid(run: Path, name: str) -> int:
    return supervisor.states(run).get(name, {}).get("pid", 0)


def _all_stay(run: Path, failed: set[str]) -> bool:
    states = supervisor.states(run)
    stay = [info["statename"] == "RUNNING" for name, info in states.items() if name not in failed]
    return bool(stay) and all(stay)


def _get(port: int, path: str) -> bytes | None:
    """None unless the status is 200."""
    try:
        reply = ask(f"http://{HOST}:{port}", path, timeout=1)
    except (OSError, http.client.HTTPException):
        return None
    return reply.body if reply.status == 200 else None


def _down(run: Path, begun: int) -> set[str]:
    """Processes that exited immediately after several starts, or that supervisord no longer starts."""
    exits = {name for name, count in supervisor.exits(run, begun).items() if count >= TRIES}
    return exits | {
        name for name, info in supervisor.states(run).items() if info["statename"] == "FATAL"
    }


def _report(dead: set[str], pending: set[str], run: Path) -> str:
    if dead:
        lines = [f"{', '.join(sorted(dead))} exited right after the start, {TRIES} times"]
    else:
        lines = [f"not ready within {DEADLINE:.0f} s: {', '.join(sorted(pending))}"]
    shown = dead or {*pending, "supervisord"}
    lines += [line for name in sorted(shown) for line in last(name, run)]
    return "\n".join(lines)


def last(name: str, run: Path) -> list[str]:
    """Returns the end of a process's log, for an error message."""
    log = run / f"{name}.log"
    return [f"the end of {log}:", *(f"    {line}" for line in progress.tail(log, LINES))]
