"""Detects ports in use, and the processes that use them (proc(5)), before the start."""

import errno
import socket
from pathlib import Path

from local.topology import Topology
from stack import HOST
from tools.errors import ToolError

LISTEN = "0A"


def require_free(topology: Topology) -> None:
    """The error names each used port, the process that uses it, and what to change."""
    wanted: dict[int, tuple[str, str]] = {}
    problems = []
    for port, part, variable in _wanted(topology):
        if port in wanted:
            other, its_variable = wanted[port]
            problems.append(
                f"port {port} is assigned to {part} and to {other}: "
                f"set {variable} or {its_variable}"
            )
            continue
        wanted[port] = (part, variable)
        problem = _problem(port)
        if problem:
            problems.append(
                f"port {port} for {part} {problem}: free it, or set {variable} to another port"
            )
    if problems:
        raise ToolError("\nerror: ".join(problems))


def require_free_port(port: int, part: str, variable: str, address: str = HOST) -> None:
    if problem := _problem(port, address):
        raise ToolError(
            f"port {port} for {part} {problem}: free it, or set {variable} to another port"
        )


def _wanted(topology: Topology) -> list[tuple[int, str, str]]:
    parts = [
        (topology.dashboard_port, "the dashboard", "DASHBOARD_PORT"),
        (topology.gateway_port, "the gateway", "GATEWAY_PORT"),
        (topology.envoy_admin_port, "Envoy's admin interface", "ENVOY_ADMIN_PORT"),
        (topology.gateway_stats_port, "the gateway stats", "GATEWAY_STATS_PORT"),
        (topology.prometheus_port, "Prometheus", "PROMETHEUS_PORT"),
    ]
    if topology.database == "postgres":
        parts.append((topology.postgres_port, "PostgreSQL", "POSTGRES_PORT"))
    for replica in topology.replicas:
        parts.append((replica.port, replica.name, "REPLICA_PORT"))
        if topology.of(replica).chassis:
            parts.append((replica.admin_port, f"{replica.name}'s admin", "REPLICA_ADMIN_PORT"))
    return parts


def _problem(port: int, address: str = HOST) -> str:
    """Reason why the port cannot be used, or ""."""
    with socket.socket() as probe:
        # Connections in TIME_WAIT do not prevent listening on their port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            return ""
        except OverflowError:
            return "does not exist, ports end at 65535"
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return f"cannot be used ({error.strerror})"
    return f"is in use by {_holder(port)}"


def _holder(port: int) -> str:
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            links = {str(link.readlink()) for link in (folder / "fd").iterdir()}
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if sockets & links:
            return f"{name} (pid {folder.name})"
    return "a process that this user cannot see"


def _listening_inodes(port: int) -> list[str]:
    inodes = []
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and int(fields[1].rsplit(":", 1)[1], 16) == port:
                inodes.append(fields[9])
    return inodes
